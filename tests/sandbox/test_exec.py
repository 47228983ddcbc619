"""Commands inside: what goes in, what comes out, how they end."""

from __future__ import annotations

import pytest

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.sandboxes import WorkerSandbox
from tests.sandbox.conftest import Open


def test_is_a_sandbox_by_the_protocol(box: WorkerSandbox, backend: str) -> None:
    assert isinstance(box, Sandbox)
    assert box.backend == backend


def test_streams_stay_apart(box: WorkerSandbox) -> None:
    result = box.exec(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"good\0\xff")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"good\0\xff", b"bad\n")
    assert not (result.timed_out or result.truncated or result.oom)


def test_environment_and_folder_are_the_callers(box: WorkerSandbox) -> None:
    box.write({"sub/x": b""})
    result = box.exec(["sh", "-c", "pwd; echo $NAME"], cwd="sub", env={"NAME": "value"})
    assert result.stdout == f"{box.work_dir}/sub\nvalue\n".encode()
    assert box.exec(["pwd"]).stdout == f"{box.work_dir}\n".encode()


def test_hash_order_is_the_same_in_every_sandbox(open_box: Open, backend: str) -> None:
    source = "print(list({str(n) for n in range(50)}))"
    first, second = (open_box(backend).exec(["python3", "-c", source]).stdout for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -15 $$"], 143),
        (["false"], 1),
    ],
)
def test_exit_codes_are_those_of_a_shell(box: WorkerSandbox, argv: list[str], code: int) -> None:
    assert box.exec(argv).exit_code == code


def test_a_missing_folder_is_a_result_not_a_crash(box: WorkerSandbox) -> None:
    result = box.exec(["true"], cwd="nowhere")
    assert result.exit_code == 127
    assert b"nowhere" in result.stderr


def test_a_written_script_runs(box: WorkerSandbox) -> None:
    box.write({"run.sh": b"#!/bin/sh\necho ran\n"}, executable=True)
    assert box.exec(["./run.sh"]).stdout == b"ran\n"


def test_truncation_keeps_both_ends(box: WorkerSandbox) -> None:
    source = "print('first'); print('x' * 10**6); print('last')"
    result = box.exec(["python3", "-c", source], output_limit_bytes=100)
    assert result.truncated
    assert result.stdout.startswith(b"first\n") and result.stdout.endswith(b"last\n")
    assert b"bytes omitted" in result.stdout and len(result.stdout) < 160


def test_output_at_the_limit_is_whole(box: WorkerSandbox) -> None:
    for size in (99, 100, 101):
        result = box.exec(["python3", "-c", f"print('x' * {size}, end='')"], output_limit_bytes=100)
        assert result.truncated == (size > 100)


def test_a_program_that_ignores_its_input_is_not_a_crash(box: WorkerSandbox) -> None:
    assert box.exec(["true"], stdin=b"x" * (1 << 20)).exit_code == 0


def test_output_after_the_end_of_the_shell_is_kept(box: WorkerSandbox) -> None:
    assert box.exec(["sh", "-c", "(sleep 0.05; echo late) & echo now"]).stdout == b"now\nlate\n"


def test_timeout_keeps_what_was_printed(box: WorkerSandbox) -> None:
    result = box.exec(["sh", "-c", "echo early; sleep 30"], timeout_sec=0.3)
    assert (result.timed_out, result.stdout) == (True, b"early\n")
    assert box.exec(["echo", "next"]).stdout == b"next\n"


def test_many_files_travel_in_several_frames(box: WorkerSandbox) -> None:
    files = {f"f{n}": bytes([n]) * (5 << 20) for n in range(4)}
    box.write(files)
    assert box.read(list(files), limit_bytes=20 << 20) == files


def test_reading_beyond_the_limit_is_refused_whole(box: WorkerSandbox) -> None:
    box.write({"a": b"x" * 60, "b": b"x" * 60})
    with pytest.raises(GuestError, match="limit"):
        box.read(["a", "b"], limit_bytes=100)


def test_deadline_ends_the_sandbox(open_box: Open, backend: str) -> None:
    box = open_box(backend, SandboxLimits(memory_mb=256, deadline_sec=2))
    with pytest.raises(SandboxError) as caught:
        box.exec(["sleep", "30"], timeout_sec=30)
    assert caught.value.kind == "timeout"


def test_a_closed_sandbox_says_so(box: WorkerSandbox) -> None:
    box.close()
    box.close()
    with pytest.raises(SandboxError, match="closed"):
        box.exec(["true"])
