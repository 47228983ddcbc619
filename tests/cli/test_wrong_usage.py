"""What people type wrongly: each gives one sentence, exit code 2, nothing on stdout, no traceback.

One table. A row is the command line, run in a folder with the files of `prepare`, and a part of
the sentence that says what was wrong.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import ANYWHERE, Runner

WRONG = (
    ("evlove", "No such command 'evlove'. Did you mean 'evolve'?"),
    ("--bogus", "No such option: --bogus"),
    ("evolve --bogus", "No such option: --bogus"),
    ("evolve extra words", "unexpected extra argument"),
    ("evolve --generations 0", "generations = 0 (from command line)"),
    ("evolve --generations two", "Invalid value for '--generations'"),
    ("evolve --candidates -1", "candidates = -1"),
    ("evolve --samples 0", "samples = 0"),
    ("evolve --train-steps=-1", "train_steps = -1"),
    ("evolve --seed -5", "seed = -5"),
    ("evolve --seed x", "Invalid value for '--seed'"),
    ("evolve --jobs 0", "jobs = 0"),
    ("evolve --concurrency 0", "concurrency = 0"),
    ("evolve --threads 0", "threads = 0"),
    ("evolve --budget 0", "budget = 0"),
    ("evolve --budget many", "Invalid value for '--budget'"),
    ("evolve --max-usd -1", "max_usd = '-1'"),
    ("evolve --max-usd lots", "max_usd = 'lots'"),
    ("evolve --max-tokens 1.5", "max_tokens = '1.5'"),
    ("evolve --domain chess", "there is no domain 'chess', only code, graded"),
    ("evolve --policy gpt", "policy = 'gpt'"),
    ("evolve --policy openai/", "expected nano, hf:PATH, vllm:PATH or provider/model"),
    ("evolve --policy hf:", "policy = 'hf:'"),
    ("evolve --policy vllm:", "policy = 'vllm:'"),
    ("evolve --policy openai/m", "--policy openai/m needs tasks"),
    ("evolve --policy hf:./model", "--policy hf:./model needs tasks"),
    ("evolve --sandbox lxc", "choose auto, docker, podman, process or harbor:"),
    ("evolve --profile huge", "'default' or 'tiny'"),
    ("evolve --strategy best", "no strategy 'best'"),
    ("evolve --prove nothing", "'harness' or 'version'"),
    ("evolve --hand-over worst", "'proven' or 'best'"),
    ("evolve --approve never", "'auto', 'merge' or 'each'"),
    ("evolve --model openai/x", "expected ROLE=MODEL"),
    ("evolve --model propser=a/b", "no role 'propser'"),
    ("evolve --base-url notaurl", "expected http://HOST"),
    ("evolve --key-env sk-canary", "never the key itself"),
    ("evolve --meta-model nobody", "meta_model = 'nobody'"),
    ("evolve --meta-model replay:nowhere", "there is no recorded run 'nowhere'"),
    ("evolve --meta-model scripted:none.jsonl", "the scripted replies none.jsonl cannot be read"),
    ("evolve --harness nowhere", "harness = 'nowhere'"),
    ("evolve --harness file", "expected seed, competent, a folder"),
    ("evolve --workspace file", "is a file, not a directory"),
    ("evolve --threshold 2", "--threshold has no effect in this run"),
    ("evolve --python none", "--python has no effect in this run"),
    ("evolve --map x", "expected THEIRS=OURS pairs"),
    ("evolve --tasks none.jsonl --policy a/x", "none.jsonl: No such file or directory"),
    ("evolve --tasks bad.jsonl --policy a/x", "bad.jsonl:1: the line is not JSON"),
    ("evolve --tasks empty.jsonl --policy a/x", "empty.jsonl holds no tasks"),
    ("evolve --tasks list.jsonl --policy a/x", "list.jsonl:1: expected an object"),
    ("evolve --tasks latin.jsonl --policy a/x", "the line is not UTF-8"),
    ("evolve --tasks other.jsonl --policy a/x", "this row is no repository task"),
    ("evolve --tasks folder --policy a/x", "folder: Is a directory"),
    ("evolve --tasks rows.jsonl", "the nano policy attempts only the built-in task suites"),
    ("evolve --tasks rows.jsonl --grade none.py --policy a/x", "none.py: No such file"),
    ("evolve --tasks rows.jsonl --grade bad.py --policy a/x", "bad.py failed: SyntaxError"),
    ("evolve --tasks rows.jsonl --grade mute.py --policy a/x", "no function grade(task, answer)"),
    ("evolve --grade good.py --policy a/x", "there are no tasks"),
    ("train --steps 0", "No such option: --steps"),
    ("init --domain chess", "there is no domain 'chess'"),
    ("init --harness nowhere", "harness = 'nowhere'"),
    ("check nowhere", "unexpected extra argument"),
    ("compare --conditions nothing", "unknown condition 'nothing'"),
    ("compare --seeds 0 --arms full,static", "--seeds is 0, but must be 1 or more"),
    ("status", "is not a workspace"),
    ("status --workspace file", "is not a workspace"),
    ("show", "is not a workspace"),
    ("why g0/c0", "is not a workspace"),
    ("verify abc", "is not a workspace"),
    ("report", "is not a workspace"),
    ("report --html", "requires an argument"),
    ("report --rollouts none.jsonl", "the rollouts none.jsonl do not exist"),
    ("report --rollouts bad.jsonl", "no rollout could be read"),
    ("report --rollouts empty.jsonl", "no rollout could be read: 1 files, all empty"),
    ("adopt", "adopt needs exactly one destination"),
    ("verify main --reward x", "No such option: --reward"),
    ("tasks check", "--domain swe needs tasks"),
    ("tasks check none.jsonl", "none.jsonl: No such file or directory"),
    ("tasks check folder", "folder: Is a directory"),
    ("tasks synth nowhere --out x", "neither a folder nor a source distribution"),
    ("tasks synth folder", "Missing option '--out'"),
    ("tasks synth folder --out x.jsonl", "folder has no tests"),
    ("tasks synth folder --out x.jsonl --count 0", "Invalid value for '--count'"),
    ("tasks synth folder --out x.jsonl --repeats 1", "Invalid value for '--repeats'"),
    ("tasks synth package --out folder", "--out folder is a folder"),
    ("tasks synth package --out file/x.jsonl", "--out file/x.jsonl: its folder"),
    ("tasks mine nowhere --out x.jsonl", "cannot read nowhere"),
    ("tasks mine folder --out x.jsonl", "cannot read folder"),
    ("tasks mine file --out x.jsonl", "cannot read file"),
    ("tasks check bad.jsonl", "bad.jsonl:1: the line is not JSON"),
    ("tasks check rows.jsonl --domain chess", "there is no domain 'chess'"),
    ("tasks check rows.jsonl --jobs 0", "Invalid value for '--jobs'"),
    ("tasks images none.jsonl", "none.jsonl: No such file or directory"),
    ("evolve --tasks rows.jsonl --grade good.py --policy a/x --map prompt", "THEIRS=OURS"),
    ("evolve --tasks twice.jsonl --domain swe --policy a/x", "2 of its tasks repeat others"),
    ("report --rollouts folder", "folder has no file that ends in"),
    ("report --rollouts file --json", "no rollout could be read: 1 rows of no format"),
    ("skills import none", "No such command 'import'. Did you mean 'export'?"),
    ("evolve --tasks none.jsonl", "the nano policy attempts only the built-in task suites"),
    ("log --follow", "is not a workspace"),
    ("compare a b", "the rollouts a do not exist"),
    ("sandbox build --tag x:1", "needs both --requirements FILE and --tag"),
    ("doctor extra", "unexpected extra argument"),
    ("sandbox bogus", "No such command 'bogus'"),
)

ROW = {
    "repo": "r",
    "base_commit": "0" * 40,
    "problem_statement": "it breaks",
    "patch": "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n",
    "test_patch": "",
    "FAIL_TO_PASS": ["test_m.py::test_x"],
    "PASS_TO_PASS": [],
    "image": "none:1",
    "source": {"image_path": "/repo"},
}
TWICE = b"".join(
    json.dumps({**ROW, "instance_id": f"r-{n}", "split": split}).encode() + b"\n"
    for n, split in enumerate(("search", "search", "confirm"))
)


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are none of what is asked for. No row writes here: each is refused before."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "folder").mkdir()
    for name, content in {
        "file": b"x",
        "bad.jsonl": b"{not json}\n",
        "empty.jsonl": b"",
        "list.jsonl": b"[1, 2]\n",
        "latin.jsonl": b'{"prompt": "caf\xe9"}\n',
        "other.jsonl": b'{"foo": 1}\n',
        "rows.jsonl": b'{"prompt": "p", "gold": "g"}\n',
        "bad.py": b"def grade(:\n",
        "mute.py": b"x = 1\n",
        "package/pair.py": b"def f():\n    return 1\n",
        "package/test_pair.py": b"def test_f():\n    pass\n",
        "twice.jsonl": TWICE,
        "good.py": b"def grade(task, answer):\n    return True\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("words", "part"), WRONG, ids=[words for words, _ in WRONG])
def test_a_wrong_usage_is_one_sentence(
    meta_agent: Runner, prepare: Path, words: str, part: str
) -> None:
    before = sorted(prepare.rglob("*"))
    done = meta_agent(*words.split(), cwd=prepare, **ANYWHERE)
    assert (done.returncode, done.stdout) == (2, "")
    said = [line for line in done.stderr.splitlines() if line.startswith(("meta-agent: ", "Error"))]
    assert len(said) == 1 and part in said[0], done.stderr
    assert "Traceback" not in done.stderr and "sk-canary" not in done.stderr
    assert sorted(prepare.rglob("*")) == before, "nothing is made for what is refused"
