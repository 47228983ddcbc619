"""Files as they are found outside: packed, cut short, in folders, in archives, of any bytes."""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from meta_agent.core.errors import ConfigError
from meta_agent.core.rollouts import RolloutStore
from meta_agent.readers.formats import absent, read_rollouts
from meta_agent.readers.formats._read import POINTER

from ._foreign import DIALOGUE, first, ours, place, read, write_jsonl

ROW = {"messages": DIALOGUE, "reward": 1.0}
LINES = b"".join(
    json.dumps({**ROW, "reward": random.Random(n).random()}).encode() + b"\n" for n in range(2000)
)


# --- text and packing ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.txt"])
@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_unpacked_by_what_it_is_and_not_by_its_name(
    name: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES) if packed else LINES)
    assert sum(1 for _ in read_rollouts(path)) == 2000


def test_a_packed_file_that_was_cut_short_gives_what_it_has_and_counts_the_damage(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(LINES)
    path.write_bytes(whole[: len(whole) // 2])
    reading = read_rollouts(path)
    assert 100 < len(list(reading)) < 2000
    assert reading.tally.skipped_rows


@pytest.mark.parametrize("indent", [None, 1])
def test_a_byte_order_mark_is_no_part_of_the_text(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(first("inspect"), indent=indent), encoding="utf-8-sig")
    assert len(list(read_rollouts(path))) == 1


POINTER_TEXT = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
TASK = {"instance_id": "a", "problem_statement": "x", "repo": "r"}
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ""),
    "no text": ("\x00\x01", ""),
    "cut": ("[1, 2", ""),
    "no table": ("PAR1 but not really", ""),
    "nested without end": ("[" * 100_000 + "]" * 100_000 + "\n", ""),
    "no rollout in it": ('{"messages": [1]}\n', ""),
    "tasks": (json.dumps(TASK), "tasks check"),
    "a report without a verdict": ('{"a": {"patch_exists": true, "resolved": "maybe"}}', ""),
    "UTF-16, low byte first": (("\ufeff" + json.dumps(ROW)).encode("utf-16-le"), "iconv"),
    "UTF-16, high byte first": (("\ufeff" + json.dumps(ROW)).encode("utf-16-be"), "iconv"),
    "a pointer of Git LFS": (POINTER_TEXT, "git lfs pull"),
    "a packed document, cut": (gzip.compress(json.dumps([ROW] * 2000).encode())[:-20], ""),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_holds_no_rollout_is_refused_with_the_next_command(name: str, tmp_path: Path) -> None:
    content, command = UNREADABLE[name]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        list(read_rollouts(path))
    assert command in str(caught.value.hint)


def test_a_line_that_is_nested_without_end_is_one_bad_row(tmp_path: Path) -> None:
    deep = '{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert len(read(tmp_path, deep, ROW)) == 1


def test_nan_and_broken_unicode_pass_through_without_a_crash(tmp_path: Path) -> None:
    odd = [DIALOGUE[1], {"role": "assistant", "content": "\ud800 \x1b[31m"}]
    row = json.dumps({**first("prime-rl"), "completion": odd, "info": {"loss": 1}, "reward": 2})
    row = row.replace('"loss": 1', '"loss": NaN').replace('"reward": 2', '"reward": Infinity')
    (found,) = read(tmp_path, row)
    assert "reward" not in found.rewards
    assert found.verifier_inputs["info"] == {"loss": None}
    store = RolloutStore(tmp_path / "store")
    assert store.read(store.write("odd", [found]), tokens=True) == [found]


# --- places and counts ---------------------------------------------------------------------------


def test_a_skipped_row_is_named_with_its_file_its_line_and_the_value(tmp_path: Path) -> None:
    odd = {"messages": [{"role": "robot", "content": "x"}]}
    for name in "ab":
        place(tmp_path, {f"{name}/rows.jsonl": [ROW, "broken", odd]})
    reading = read_rollouts(tmp_path)
    assert len(list(reading)) == 2
    places = [each.split(" has ") for held in reading.tally.places.values() for each in held]
    assert sorted(each[0] for each in places) == [
        f"{n}/rows.jsonl:{k}" for n in "ab" for k in (2, 3)
    ]
    assert sum('"robot"' in each[-1] for each in places) == 2


def test_fields_made_up_without_end_are_counted_and_not_all_named(tmp_path: Path) -> None:
    rows = [{**ROW, **{f"f{n}-{i}": 1 for i in range(300)}} for n in range(9)]
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows))
    list(reading)
    assert sum(reading.tally.left_out.values()) == 2700
    assert len(reading.tally.left_out) <= 1001
    assert max(map(len, reading.tally.lines())) < 1000


# --- folders -------------------------------------------------------------------------------------


def test_packed_files_lists_and_folders_are_read(tmp_path: Path) -> None:
    line = json.dumps(ROW).encode() + b"\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(line))
    place(tmp_path, {"c.json": [ROW, ROW], "deeper/t.traj": first("swe-agent"), "notes.txt": "no"})
    reading = read_rollouts(tmp_path)
    assert len(list(reading)) == 5
    assert (reading.tally.files, reading.tally.format) == (4, "several formats")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((f"cut.{kind}", '{\n "trajectory": [') for kind in ("json", "parquet", "eval", "traj")),
        ("config.json", {"learning_rate": 1}),
        ("pointer.jsonl", [POINTER_TEXT.rstrip()]),
    ],
)
def test_a_file_that_cannot_be_read_does_not_end_the_reading_of_a_folder(
    name: str, content: Any, tmp_path: Path
) -> None:
    reading = read_rollouts(place(tmp_path, {name: content, "whole.jsonl": [ROW]}))
    assert len(list(reading)) == 1
    assert [name] in reading.tally.places.values()
    assert (POINTER in reading.tally.skipped) == (name == "pointer.jsonl")


def test_a_store_of_our_own_is_read_as_a_folder(tmp_path: Path) -> None:
    RolloutStore(tmp_path / "store").write("run/g0", [ours(0, 0), ours(0, 1)])
    assert [rollout.sample_idx for rollout in read_rollouts(tmp_path / "store")] == [0, 1]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", ROW)
    assert len(list(read_rollouts(tmp_path, path, path))) == 1


def test_rows_whose_fields_are_mapped_are_read_beside_a_report(tmp_path: Path) -> None:
    """The files are read twice there, by the same names."""
    files = {"rows.jsonl": [{"name": "a", "text": "Fix a.", "patch": "diff"}]}
    place(tmp_path, {**files, "report.json": first("swe-bench-report")})
    rows, verdicts = tmp_path / "rows.jsonl", tmp_path / "report.json"
    mapped = read_rollouts(rows, verdicts, fields="name=example_id,text=prompt,patch=completion")
    assert [(rollout.task_key, rollout.outcome) for rollout in mapped] == [("rows/a", None)]


# --- archives of Inspect -------------------------------------------------------------------------


def archive(
    path: Path, *names: str, header: str = "header.json", how: int = zipfile.ZIP_DEFLATED
) -> Path:
    log = first("inspect")
    with zipfile.ZipFile(path, "w", how) as packed:
        packed.writestr(header, json.dumps({"version": 2, "eval": log["eval"]}))
        for name in names:
            packed.writestr(f"samples/{name}.json", json.dumps(log["samples"][0]))
        packed.writestr("summaries.json", "[]")
    return path


def spoiled(mark: bytes, ahead: int, data: bytes) -> Callable[[Path], int]:
    """Overwrites what is so far behind the last mark."""

    def spoil(path: Path) -> int:
        whole = bytearray(path.read_bytes())
        start = whole.rindex(mark) + ahead
        whole[start : start + len(data)] = data
        return path.write_bytes(whole)

    return spoil


@pytest.mark.parametrize(("header", "caveats"), [("header.json", 0), ("_journal/start.json", 2)])
def test_an_archive_is_read_sample_by_sample_and_one_without_a_header_was_never_finished(
    header: str, caveats: int, tmp_path: Path
) -> None:
    archive(tmp_path / "log.eval", "1_epoch_1", "1_epoch_2", header=header)
    reading = read_rollouts(tmp_path)
    assert [rollout.policy for rollout in reading] == ["openai/m"] * 2
    assert reading.tally.caveats.total() == caveats


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        spoiled(b"PK\5\6", 16, b"\xff\xff\xff\x7f"),
        spoiled(b"PK\1\2", 6, b"\xff"),
        lambda path: archive(path, header="other.json"),
        lambda path: archive(path),
    ],
    ids=["cut", "directory elsewhere", "newer version", "other archive", "no sample"],
)
def test_other_archives_are_refused(spoil: Any, tmp_path: Path) -> None:
    spoil(archive(tmp_path / "log.eval", "1_epoch_1"))
    with pytest.raises(ConfigError):
        list(read_rollouts(tmp_path / "log.eval"))


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_sample_is_a_row_however_it_is_packed(how: int, tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", "1_epoch_1", "2_epoch_1", how=how)
    whole = path.read_bytes()
    start = whole.index(b"samples/1_epoch_1.json") + 34
    path.write_bytes(whole[:start] + bytes(28) + whole[start + 28 :])
    assert len(list(read_rollouts(path))) == 1


# --- Parquet -------------------------------------------------------------------------------------


def test_a_table_as_a_trainer_writes_it_is_read(tmp_path: Path) -> None:
    """`log_completions` makes a data frame of messages and writes it by pandas."""
    pandas = pytest.importorskip("pandas", reason="needs the train extra")
    pytest.importorskip("pyarrow", reason="Parquet needs the train extra")
    prompts = [DIALOGUE[:2]] * 2
    completions = [DIALOGUE[2:], [{"role": "assistant", "content": "none"}]]
    table = {"step": [1, 1], "prompt": prompts, "completion": completions}
    frame = pandas.DataFrame({**table, "solved": [1.0, 0.0], "advantage": [0.7, -0.7]})
    frame.to_parquet(tmp_path / "completions_00001.parquet")
    one, two = read_rollouts(tmp_path)
    assert one.messages == DIALOGUE
    assert (one.turns, one.tool_events[0].arguments) == (2, {"cmd": "ls"})
    assert (two.rewards, two.advantage, two.sample_idx) == ({"solved": 0.0}, -0.7, 1)


def test_trl_tables_with_strings_and_missing_rewards_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the train extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"step": [5] * 3, "prompt": ["2+2", "2+2", "3+3"], "completion": ["4", "5", None]}
    more = {"accuracy": [1.0, float("nan"), 0.0], "advantage": [0.7, -0.7, 0.0], "note": [*"abc"]}
    parquet.write_table(pa.table({**table, **more}), tmp_path / "completions_00005.parquet")
    reading = read_rollouts(tmp_path)
    one, two = reading
    assert one.group_id == two.group_id and one.group_id.endswith("@5")
    assert one.rewards == {"accuracy": 1.0}
    assert "rewards" in absent(two) and "tool_events" in absent(one)
    assert reading.tally.skipped_rows == 1
    left_out = {name.split()[0]: n for name, n in reading.tally.left_out.items()}
    assert left_out == {"accuracy": 1, "note": 2}
