"""Files that unpack to far more than they weigh, or are nested for nobody to read."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path

import pytest
import zstandard

from meta_agent.core.errors import ConfigError, MetaAgentError, SandboxError
from meta_agent.core.parsing.parquet import parquet_rows
from meta_agent.core.parsing.strict import Budget, Unfit, document, parse
from meta_agent.domains.formats.files import values
from meta_agent.domains.formats.rows import stream_rows
from meta_agent.domains.swe import _tree
from meta_agent.domains.swe._tree import read_archive
from meta_agent.policies.served.vllm_server import config_of
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.readers.formats._source import Source
from meta_agent.readers.formats._source import values as samples
from meta_agent.sandboxes._images import saved_images

DIGEST = "ab" * 32
HONEST = json.dumps([{"Config": f"blobs/sha256/{DIGEST}", "RepoTags": ["a/b:1"]}]).encode()


def tar(path: Path, *members: tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_honest_image_is_listed(tmp_path: Path, mode: str) -> None:
    path = tar(tmp_path / "i.tar", ("layer.tar", b"x" * 5000), ("manifest.json", HONEST), mode=mode)
    (saved,) = saved_images(path)
    assert (saved.id, saved.tags) == (f"sha256:{DIGEST}", ("a/b:1",))


def test_a_plain_file_system_holds_no_image(tmp_path: Path) -> None:
    assert saved_images(tar(tmp_path / "i.tar", ("etc/passwd", b"root"))) == []


def long_header(path: Path) -> None:
    """A header of an extended header that is 400 MB long, packed to half a megabyte."""
    head = tarfile.TarInfo("././@PaxHeader")
    head.type, head.size = tarfile.XHDTYPE, 400 << 20
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.tobuf())
        for _ in range(400):
            file.write(bytes(1 << 20))


def long_manifest(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        head = tarfile.TarInfo("manifest.json")
        head.size = 200 << 20
        file.write(head.tobuf())
        for _ in range(200):
            file.write(b"[" * (1 << 20))


def manifest(value: object) -> Callable[[Path], None]:
    return lambda path: tar(path, ("manifest.json", json.dumps(value).encode())) and None


IMAGES = {
    "a long header": long_header,
    "a long manifest": long_manifest,
    "a manifest that is text": manifest("x"),
    "a manifest of numbers": manifest([1, 2]),
    "a number": manifest(7),
    "no configuration": manifest([{"RepoTags": []}]),
    "a configuration that is a list": manifest([{"Config": ["x"]}]),
    "a digest that is none": manifest([{"Config": "../../etc/passwd"}]),
    "tags that are numbers": manifest([{"Config": DIGEST, "RepoTags": [1]}]),
    "tags that are an object": manifest([{"Config": DIGEST, "RepoTags": {"a": 1}}]),
    "nested": lambda path: tar(path, ("manifest.json", b"[" * 50_000)) and None,
    "not gzip after all": lambda path: path.write_bytes(b"\x1f\x8b" + bytes(100)) and None,
    "cut": lambda path: path.write_bytes(gzip.compress(bytes(10_000))[:20]) and None,
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_odd_image_is_a_typed_error(tmp_path: Path, name: str) -> None:
    IMAGES[name](tmp_path / "i.tar")
    with pytest.raises(SandboxError) as caught:
        saved_images(tmp_path / "i.tar")
    assert caught.value.kind == "image" and len(str(caught.value)) < 1000


# --- sources of tasks -----------------------------------------------------------------------------


def many_headers(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(tarfile.TarInfo("a/b").tobuf() * 20_000)


def a_long_name(path: Path) -> None:
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 400 << 20
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.tobuf())
        for _ in range(400):
            file.write(bytes(1 << 20))


def a_comment(path: Path) -> None:
    head = tarfile.TarInfo("pax_global_header")
    head.size = 400 << 20
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.tobuf())
        for _ in range(400):
            file.write(bytes(1 << 20))


def read_source(path: Path) -> object:
    return read_archive(path, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_honest_source_is_read(tmp_path: Path, mode: str) -> None:
    files = [("top/a.py", b"x" * (7 << 20)), ("top/b/c.py", b"y")]
    assert read_source(tar(tmp_path / "s.tar", *files, mode=mode)) == {
        "a.py": files[0][1],
        "b/c.py": b"y",
    }


@pytest.mark.parametrize("make", [long_header, a_long_name, a_comment, many_headers])
def test_a_source_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tree, "_MAX_MEMBERS", 10_000)
    make(tmp_path / "s.tar.gz")
    before = peak_mb(anew=True)
    with pytest.raises(ConfigError):
        read_source(tmp_path / "s.tar.gz")
    assert peak_mb() - before < 100


def test_a_source_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("fifo", "endless", "."):
        with pytest.raises(ConfigError, match="is no regular file"):
            read_archive(tmp_path / name, "0" * 64)


@pytest.mark.parametrize("name", ["f.jsonl", "f.csv", "f.parquet", "endless.jsonl"])
def test_a_task_file_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "endless.jsonl").symlink_to("/dev/zero")
    if not (tmp_path / name).exists():
        os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match="not a regular file"):
        list(stream_rows(tmp_path / name))


# --- rows that are packed -------------------------------------------------------------------------


def packed(path: Path, *parts: bytes | int) -> Path:
    """Texts as they are, and as many megabytes of one letter; gzip or zstd by the name."""
    with (gzip.open(path, "wb", compresslevel=1) if path.suffix != ".zst" else
          zstandard.open(path, "wb")) as file:  # fmt: skip
        for part in parts:
            for _ in range(part if isinstance(part, int) else 0):
                file.write(b"x" * (1 << 20))
            file.write(b"" if isinstance(part, int) else part)
    return path


ROWS: dict[str, tuple[str, tuple[bytes | int, ...]]] = {
    "a line": ("a.jsonl.gz", (b'{"a":1}\n{"a":"', 300, b'"}\n')),
    "a line of zstd": ("a.jsonl.zst", (b'{"a":1}\n{"a":"', 300, b'"}\n')),
    "a list": ("a.json.gz", (b'["', 300, b'"]')),
    "a table": ("a.csv", (b'a,b\n"', 300, b'",1\n')),
    "a list of objects": ("a.json.gz", (b"[" + b'{"a":0},' * 1_900_000 + b"{}]",)),
    "columns": ("a.csv", (b"a," * (40 << 20), b"b\n1\n")),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_packed_is_held_in_little_memory(tmp_path: Path, name: str) -> None:
    file, parts = ROWS[name]
    path = packed(tmp_path / file, *parts)
    readers: list[Callable[[], object]] = [
        lambda: list(values(path)),
        lambda: list(stream_rows(path)),
    ]
    for read in readers:
        before = peak_mb(anew=True)
        with pytest.raises(ConfigError):
            read()
        assert peak_mb() - before < 256


def test_a_sample_of_a_log_is_held_in_little_memory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"eval": {}, "status": "success"}')
        with archive.open("samples/1.json", "w") as file:
            for _ in range(300):
                file.write(b" " * (1 << 20))
    before = peak_mb(anew=True)
    (one,) = samples(Source(tmp_path / "a.eval", "a"))
    assert type(one.value).__name__ == "BadLine" and peak_mb() - before < 256


@pytest.mark.parametrize("file", ["a.jsonl.gz", "a.jsonl.zst"])
def test_honest_rows_are_read_packed(tmp_path: Path, file: str) -> None:
    path = packed(tmp_path / file, *(b'{"a": "', 8, b'"}\n') * 3)
    assert sum(1 for _ in values(path)) == 3
    assert sum(1 for _ in stream_rows(path)) == 3


# --- Parquet --------------------------------------------------------------------------------------


def repeated(path: Path, value: object, rows: int) -> None:
    """One value in many rows: Parquet writes it once."""
    import pyarrow as pa
    from pyarrow import parquet

    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    parquet.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=False)


@pytest.mark.train
def test_rows_come_in_order(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"n": list(range(1000)), "text": ["x" * 50] * 1000})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    assert [row["n"] for row in parquet_rows(tmp_path / "a.parquet")] == list(range(1000))


@pytest.mark.train
def test_a_value_that_stands_in_many_rows_is_held_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    repeated(path, "x" * (10 << 20), 300)
    assert path.stat().st_size < 100_000
    before = peak_mb(anew=True)
    for reader in (parquet_rows(path), stream_rows(path), values(path)):
        assert sum(1 for _ in reader) == 300
    assert peak_mb() - before < 256


@pytest.mark.train
def test_a_file_that_is_no_parquet_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    for read in (stream_rows, lambda path: values(path)):
        with pytest.raises(ConfigError):
            list(read(tmp_path / "a.parquet"))


def test_kinds_that_json_has_not_are_told_in_its_own(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    row = {"a": b"\xff", "b": datetime(2020, 1, 2, 3), "c": Decimal("1.50"), "d": [time(1, 2)]}
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (found,) = parquet_rows(tmp_path / "a.parquet")
    assert found == {"a": "/w==", "b": "2020-01-02T03:00:00", "c": "1.50", "d": ["01:02:00"]}


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\udc00": [1]}'])
def test_a_task_with_half_of_a_pair_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ConfigError, match="half of a surrogate pair"):
        list(stream_rows(tmp_path / "a.jsonl"))


def nothings(path: Path) -> None:
    """One row that is a list of twenty million nothings."""
    import pyarrow as pa
    from pyarrow import parquet

    count = 20_000_000
    rows = pa.ListArray.from_arrays(pa.array([0, count]), pa.nulls(count, pa.int32()))
    parquet.write_table(pa.table({"a": rows}), path)


def long_text(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"a": ["x" * (120 << 20)]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)


@pytest.mark.train
@pytest.mark.parametrize("make", [nothings, long_text])
def test_a_row_far_larger_than_its_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    before = peak_mb(anew=True)
    with pytest.raises(ConfigError, match="row group"):
        list(parquet_rows(tmp_path / "a.parquet"))
    assert peak_mb() - before < 256


@pytest.mark.train
def test_honest_lists_and_repeated_rows_are_read(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"mask": [[1] * 512] * 2000, "same": ["yes"] * 2000})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert sum(len(row["mask"]) for row in parquet_rows(tmp_path / "a.parquet")) == 2000 * 512  # type: ignore[arg-type]


def peak_mb(*, anew: bool = False) -> float:
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


# --- documents ------------------------------------------------------------------------------------

DEEP = "[" * 990 + "]" * 990
WIDE = "[" + "[]," * 5_000_000 + "0]"


@pytest.mark.parametrize("text", [DEEP, "[" * 100_000, '{"a":' * 990 + "1" + "}" * 990, WIDE])
def test_a_document_for_nobody_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        document(text)
    path = tmp_path / "rows.json"
    path.write_text(text)
    for read in (stream_rows, lambda path: values(path)):
        try:
            found = list(read(path))
        except ConfigError:
            continue
        assert all(type(one.value).__name__ == "BadLine" for one in found)  # type: ignore[union-attr]


@pytest.mark.parametrize("manifest", [DEEP, "[]", "7", '{"schema_version": 1}', "{", '{"a": 1'])
def test_an_odd_manifest_of_a_policy_is_a_typed_error(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "checkpoint.json").write_text(manifest)
    for name in ("manifest.json", "meta_agent.json", "policy.json"):
        (tmp_path / name).write_text(manifest)
    with pytest.raises(MetaAgentError):
        open_checkpoint(tmp_path, foreign=False)


@pytest.mark.parametrize("config", [DEEP, "{", "\xff"])
def test_an_odd_configuration_of_a_model_is_a_typed_error(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_bytes(config.encode("latin-1"))
    with pytest.raises(ConfigError):
        config_of(tmp_path)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (b'["a, b, c, d", [1], 2]', True),
        (b'["\\\\", "\\"", ","]', True),
        (b"[1, 2, 3, 4, 5, 6, 7, 8]", False),
        (b'["a","b","c","d","e","f","g"]', False),
        (b'[{"a":[]},{"a":[]},{"a":[]}]', False),
        (b'["' + b"," * 1000 + b'"]', True),
        (b'"' * 50, False),
    ],
)
def test_elements_are_counted_outside_of_strings(text: bytes, fits: bool) -> None:
    if fits:
        assert parse(text, Budget(elements=6)) == json.loads(text)
    else:
        with pytest.raises(Unfit):
            parse(text, Budget(elements=6))
