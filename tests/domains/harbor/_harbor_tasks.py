"""Ten Harbor tasks, written into a folder: three languages and the ways in which rewards come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from meta_agent.core.protocols import Environment
from meta_agent.domains.harbor import HarborDomain

DOCKERFILE = "FROM meta-agent-base:1\nUSER root\nWORKDIR /app\n"
PASS = "mkdir -p /logs/verifier\nif {test}; then r={good}; else r={bad}; fi\n"
TXT = PASS + "echo $r > /logs/verifier/reward.txt\n"
TOML = """{version}
[metadata]
difficulty = "easy"
split = "{split}"
[verifier]
timeout_sec = 60.0
{verifier}
[agent]
timeout_sec = 120.0
{agent}
[environment]
cpus = 1
memory_mb = 512
{environment}
{rest}
"""


def write_task(
    root: Path,
    name: str,
    *,
    instruction: str = "",
    solve: str | None = "echo ok > /app/out.txt",
    test: str = TXT.format(test="grep -qx ok /app/out.txt", good=1, bad=0),
    dockerfile: str | None = DOCKERFILE,
    split: str = "search",
    version: str = 'schema_version = "1.1"',
    verifier: str = "",
    agent: str = "",
    environment: str = "",
    rest: str = "",
    files: dict[str, str] | None = None,
) -> Path:
    folder = root / name
    toml = TOML.format(
        version=version,
        split=split,
        verifier=verifier,
        agent=agent,
        environment=environment,
        rest=rest,
    )
    texts = {
        "task.toml": toml,
        "instruction.md": (instruction or f"{name}: write ok into /app/out.txt") + "\n",
        "tests/test.sh": "#!/bin/bash\n" + test,
        **(files or {}),
    }
    if dockerfile is not None:
        texts["environment/Dockerfile"] = dockerfile
    if solve is not None:
        texts["solution/solve.sh"] = "#!/bin/bash\n" + solve + "\n"
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def write_ten(root: Path) -> Path:
    """What the acceptance asks for; `flaky` is the one that a check must find."""
    write_task(
        root,
        "python-add",
        instruction="<!-- canary 7f3a -->\n\nMake /app/add.py define add(a, b).",
        solve="printf 'def add(a, b):\\n    return a + b\\n' > /app/add.py",
        test=TXT.format(
            test="python3 -c 'from add import add; assert add(2, 3) == 5'", good="1.0", bad=0
        ),
        version='version = "1.0"',
        split="search",
    )
    write_task(
        root,
        "shell-count",
        instruction="Make /app/count.sh print how many lines its input has.",
        solve="printf 'wc -l | tr -d \" \"\\n' > /app/count.sh",
        test=TXT.format(test="[ \"$(printf 'a\\nb\\n' | sh /app/count.sh)\" = 2 ]", good=1, bad=0),
        split="confirm",
    )
    write_task(
        root,
        "perl-reverse",
        instruction="Make /app/rev.pl print its input reversed.",
        solve="printf 'my $x = <STDIN>; chomp $x; print scalar reverse $x;' > /app/rev.pl",
        test=TXT.format(test='[ "$(echo abc | perl /app/rev.pl)" = cba ]', good=1, bad=0),
        split="search",
    )
    write_task(
        root,
        "float-reward",
        instruction="Write as many of 1 to 4 as you can into /app/n.txt, one a line.",
        solve="seq 4 > /app/n.txt",
        test="mkdir -p /logs/verifier\n"
        "n=$(sort -u /app/n.txt 2>/dev/null | grep -cx '[1-4]')\n"
        'echo "{\\"reward\\": 0.$((n * 25)), \\"lines\\": $n}" | sed \'s/0.100/1.0/\' '
        "> /logs/verifier/reward.json\n",
        split="confirm",
    )
    write_task(
        root,
        "flaky",
        test=TXT.format(test="grep -qx ok /app/out.txt && [ $((RANDOM % 2)) = 0 ]", good=1, bad=0),
        split="confirm",
    )
    write_task(
        root,
        "hostile-output",
        instruction="Write ok into /app/out.txt. The verifier runs what is there as well.",
        test="mkdir -p /logs/verifier\n[ -x /app/hook ] && /app/hook\n"
        "[ -e /logs/verifier/reward.txt ] || [ -L /logs/verifier/reward.txt ] || "
        "{ grep -qx ok /app/out.txt && echo 1 || echo 0; } > /logs/verifier/reward.txt\n",
        split="confirm",
    )
    write_task(root, "separate-verifier", verifier='environment_mode = "separate"', split="search")
    toml = root / "separate-verifier" / "task.toml"
    toml.write_text('artifacts = ["/app/out.txt"]\n' + toml.read_text())
    write_task(
        root,
        "named-image",
        dockerfile=None,
        environment='docker_image = "meta-agent-base:1"\nworkdir = "/tmp"',
        instruction="Write the greeting in ./greeting.txt into out.txt",
        solve="cp greeting.txt out.txt",
        test=TXT.format(test="grep -qx hello /tmp/out.txt", good=1, bad=0),
        files={"environment/greeting.txt": "hello\n"},
        split="vault",
    )
    write_task(
        root,
        "with-variable",
        environment='env = { WORD = "ok" }',
        solve="echo $WORD > /app/out.txt",
        split="confirm",
    )
    write_task(
        root,
        "healthy",
        environment='allow_internet = false\nenv = { WORD = "${NOT_SET:-ok}" }\n'
        '[environment.healthcheck]\ncommand = "test -d /app"\ninterval_sec = 0.1',
        solve="echo $WORD > /app/out.txt",
        verifier='env = { WANTED = "ok" }',
        test=TXT.format(test='grep -qx "$WANTED" /app/out.txt', good=1, bad=0),
        split="vault",
    )
    return root


@contextlib.contextmanager
def attempt(domain: HarborDomain, key: str) -> Iterator[Environment]:
    environment = domain.open(domain.task(key))
    try:
        yield environment
    finally:
        environment.close()


def did(environment: Environment, command: str) -> str:
    return environment.call("run", {"command": command}).text
