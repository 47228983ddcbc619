"""Commands inside: what goes in, what comes out, how they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.sandboxes import WorkerSandbox, open_sandbox
from tests.sandbox._engines import ENGINES, SMALL, Open, need_backend


@pytest.fixture(scope="module", params=["process", ENGINES[0]])
def shared(request: pytest.FixtureRequest) -> Iterator[WorkerSandbox]:
    """One for all tests that leave it as it was."""
    need_backend(request.param)
    with open_sandbox(request.param, run="test", limits=SMALL) as opened:
        yield opened


def test_streams_stay_apart(shared: WorkerSandbox) -> None:
    result = shared.exec(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"good\0\xff")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"good\0\xff", b"bad\n")
    assert not (result.timed_out or result.truncated or result.oom)


def test_environment_and_folder_are_the_callers(shared: WorkerSandbox) -> None:
    shared.write({"sub/x": b""})
    result = shared.exec(["sh", "-c", "pwd; echo $NAME"], cwd="sub", env={"NAME": "value"})
    assert result.stdout == f"{shared.work_dir}/sub\nvalue\n".encode()
    assert shared.exec(["pwd"]).stdout == f"{shared.work_dir}\n".encode()


def test_exit_codes_are_those_of_a_shell(box: WorkerSandbox, backend: str) -> None:
    assert isinstance(box, Sandbox) and box.backend == backend
    box.write({"run.sh": b"#!/bin/sh\nexit 7\n"}, executable=True)
    codes = {("no-such-program",): 127, ("/etc/passwd",): 126, ("./run.sh",): 7, ("false",): 1}
    codes |= {("sh", "-c", f"kill -{number} $$"): 128 + number for number in (9, 15)}
    assert {argv: box.exec(argv).exit_code for argv in codes} == codes
    missing = box.exec(["true"], cwd="nowhere")
    assert missing.exit_code == 127 and b"nowhere" in missing.stderr
    assert box.exec(["true"], stdin=b"x" * (1 << 20)).exit_code == 0, "it ignores its input"


def test_truncation_keeps_both_ends(shared: WorkerSandbox) -> None:
    source = "print('first'); print('x' * 10**6); print('last')"
    result = shared.exec(["python3", "-c", source], output_limit_bytes=100)
    assert result.truncated
    assert result.stdout.startswith(b"first\n") and result.stdout.endswith(b"last\n")
    assert len(result.stdout) < 160
    for size in (99, 100, 101):
        result = shared.exec(
            ["python3", "-c", f"print('x' * {size}, end='')"], output_limit_bytes=100
        )
        assert result.truncated == (size > 100)


def test_output_after_the_end_of_the_shell_is_kept(shared: WorkerSandbox) -> None:
    assert shared.exec(["sh", "-c", "(sleep 0.05; echo late) & echo now"]).stdout == b"now\nlate\n"


def test_timeout_keeps_what_was_printed(shared: WorkerSandbox) -> None:
    result = shared.exec(["sh", "-c", "echo early; sleep 30"], timeout_sec=0.3)
    assert (result.timed_out, result.stdout) == (True, b"early\n")
    assert shared.exec(["echo", "next"]).stdout == b"next\n"


def test_many_files_travel_in_several_frames(shared: WorkerSandbox) -> None:
    files = {f"f{n}": bytes([n]) * (5 << 20) for n in range(4)}
    shared.write(files)
    assert shared.read(list(files), limit_bytes=20 << 20) == files


def test_reading_beyond_the_limit_is_refused_whole(shared: WorkerSandbox) -> None:
    shared.write({"a": b"x" * 60, "b": b"x" * 60})
    with pytest.raises(GuestError):
        shared.read(["a", "b"], limit_bytes=100)


def test_deadline_ends_the_sandbox(open_box: Open, backend: str) -> None:
    box = open_box(backend, SandboxLimits(memory_mb=256, deadline_sec=2))
    with pytest.raises(SandboxError) as caught:
        box.exec(["sleep", "30"], timeout_sec=30)
    assert caught.value.kind == "timeout"


def test_a_closed_sandbox_says_so(box: WorkerSandbox) -> None:
    box.close()
    box.close()
    with pytest.raises(SandboxError):
        box.exec(["true"])
