"""The trained policy in somebody's hand, and where an `hf:` policy comes from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

from meta_agent.studies.demo import DEFAULT, recording_folder, unpacked
from tests.cli._command import Runner
from tests.cli._command import meta_agent as meta_agent
from tests.loopback import refused_url
from tests.loopback._hub import hub

FOLDER = recording_folder(DEFAULT)

NANO = Path(str(resources.files("meta_agent.domains.nano") / "checkpoints/swe"))


@pytest.fixture
def workspace(tmp_path: Path, meta_agent: Runner) -> Path:
    """The recorded run, with weights where its ledger says they are."""
    place = unpacked(tmp_path / FOLDER)
    told = meta_agent("report", "--json", cwd=place.root).document
    shutil.copytree(NANO, tmp_path / told["product"]["weights"])
    return place.root


def test_the_weights_come_in_the_hubs_layout_with_the_verdict(
    tmp_path: Path, workspace: Path, meta_agent: Runner
) -> None:
    given = ("adopt", "--workspace", FOLDER, "--model", "new/model")
    done = meta_agent(*given, "--json", cwd=tmp_path).document
    folder = tmp_path / "new/model"
    assert done["serve"] == f"vllm serve {folder} --served-model-name model"
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names
    assert "manifest.json" not in names
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for words in (
        "**verdict**: proven: this harness, over training seeds: +56.5 points [+37.9, +75.2]",
        "**vault**: 6.4 % [4.6, 8.9] → 79.5 % [75.8, 82.8]",
        "**claim**: +73.6 [+70.4, +76.9], proven",
        "cannot see gains below about 19.5 points",
        "vllm serve",
    ):
        assert words in card
    again = meta_agent(*given, cwd=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr


@pytest.mark.train
def test_what_was_handed_over_loads_as_any_model_does(
    tmp_path: Path, workspace: Path, meta_agent: Runner
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the train extra")
    meta_agent("adopt", "--workspace", FOLDER, "--model", "model", cwd=tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    ids = tokenizer("view", return_tensors="pt").input_ids
    assert model.generate(ids, max_new_tokens=2).shape[1] >= ids.shape[1]


def test_a_recording_without_its_weights_hands_none_over(
    tmp_path: Path, meta_agent: Runner
) -> None:
    unpacked(tmp_path / FOLDER)
    done = meta_agent("adopt", "--workspace", FOLDER, "--model", "model", cwd=tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "model").exists()


# --- the hub -------------------------------------------------------------------------------------

needs_hub = pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="needs huggingface_hub")
SENTENCE = """
import sys
from meta_agent.core.errors import MetaAgentError
from meta_agent.policies.training.hub import hf_place
try:
    print(sorted(path.name for path in hf_place(sys.argv[1]).iterdir()))
except MetaAgentError as error:
    print(f"{error} | {error.hint}")
"""


def place_of(name: str, address: str, home: Path) -> str:
    """What `hf:NAME` comes to, with that hub; the hub's address is read when it is imported."""
    own = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    argv = [sys.executable, "-W", "ignore", "-c", SENTENCE, name]
    ran = subprocess.run(
        argv, env={**os.environ, **own}, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@needs_hub
def test_a_model_of_the_hub_is_fetched_once(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "model.safetensors": b"w", "train.py": b"no", "notes.md": b"no"}
    with hub(files) as address:
        assert place_of("org/tiny", address, tmp_path) == "['config.json', 'model.safetensors']"


@needs_hub
def test_a_name_that_the_hub_does_not_have_is_a_sentence(tmp_path: Path) -> None:
    with hub({}) as address:
        told = place_of("org/nothing", address, tmp_path)
    assert told.startswith("the hub did not deliver hf:org/nothing: 404")
    assert "is the name right?" in told


@needs_hub
def test_a_hub_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    with refused_url() as url:
        told = place_of("org/tiny", url.removesuffix("/v1"), tmp_path)
    assert "hf:org/tiny" in told and "hub" in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./nowhere", "there is no model folder nowhere"),
        ("a b", "there is no model folder a b"),
        ("{folder}", "is not a model folder: it has no config.json"),
    ],
)
def test_what_is_no_model_is_said_before_anything_starts(
    tmp_path: Path, meta_agent: Runner, name: str, words: str
) -> None:
    policy = f"hf:{name.format(folder=tmp_path)}"
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1 + 1?", "answer": "2"}\n')
    argv = ("evolve", "--domain", "math", "--tasks", "rows.jsonl", "--policy", policy)
    done = meta_agent(*argv, "--workspace", "ws", cwd=tmp_path)
    assert done.returncode in (2, 3) and words in done.stderr
    assert not (tmp_path / "ws").exists()
