"""E: what is in the way when the host reads and writes files inside."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from meta_agent.core.errors import GuestError
from meta_agent.core.protocols import Sandbox
from tests.sandbox.attacks._check import LIMITS, Check
from tests.sandbox.attacks._programs import answers, run_python

TRAPS = """
import os, socket
open("plain", "w").write("plain")
os.mkfifo("fifo")
os.symlink("plain", "link")
os.symlink("/etc/passwd", "outside")
os.symlink("/etc", "folderlink")
os.symlink("loop", "loop")
os.mkdir("folder")
socket.socket(socket.AF_UNIX).bind("socket")
os.symlink("/dev/zero", "device")
os.symlink("/proc/self/fd/0", "descriptor")
"""
TRAP_NAMES = ["fifo", "link", "outside", "folderlink/passwd", "loop", "folder", "socket"]
TRAP_NAMES += ["device", "descriptor", "missing", "plain/below", "folderlink"]
OUTWARD = ["../escape", "/etc/passwd", "a/../../b", "", ".", "a/.."]


def reads_plain(sandbox: Sandbox) -> str:
    run_python(sandbox, "open('plain', 'w').write('plain')")
    return "" if sandbox.read(["plain"]) == {"plain": b"plain"} else "a plain file is not read"


def reads_traps(sandbox: Sandbox) -> str:
    """Nothing but the plain file comes out, and nothing hangs."""
    run_python(sandbox, "import os\nos.unlink('plain')\n" + TRAPS)
    started = time.monotonic()
    found = sandbox.read([*TRAP_NAMES, "plain"])
    if found != {"plain": b"plain"}:
        return f"read {sorted(found)}"
    took = time.monotonic() - started
    return "" if took < 5 else f"took {took:.1f} s"


def leaves_folder(sandbox: Sandbox) -> str:
    """Paths out of the work folder are refused, for reading and for writing."""
    for path in OUTWARD:
        for act in (lambda p=path: sandbox.read([p]), lambda p=path: sandbox.write({p: b"x"})):
            try:
                act()
            except GuestError:
                continue
            return f"{path!r} was accepted"
    return answers(sandbox)


def writes_plain(sandbox: Sandbox) -> str:
    files = {"deep/er/file": b"\0\xff" * 1000, "top": b""}
    sandbox.write(files)
    return "" if sandbox.read(list(files)) == files else "files came back changed"


def writes_through_links(sandbox: Sandbox) -> str:
    """A planted link is replaced, a linked folder refused, a FIFO does not hang."""
    run_python(sandbox, "import os\nos.mkdir('d')\nopen('d/target', 'w').write('old')\n" + LINKS)
    sandbox.write({"out": b"new", "pipe": b"new"})
    if sandbox.read(["d/target", "out", "pipe"]) != {
        "d/target": b"old",
        "out": b"new",
        "pipe": b"new",
    }:
        return "a file was written through a link"
    try:
        sandbox.write({"linked/target": b"new"})
    except GuestError:
        return answers(sandbox)
    return "a file was written through a linked folder"


LINKS = "os.symlink('d/target', 'out')\nos.symlink('d', 'linked')\nos.mkfifo('pipe')\n"


def reads_huge(sandbox: Sandbox) -> str:
    """A sparse file larger than the limit is refused whole, at once."""
    size = (LIMITS.scratch_mb << 20) - 4096
    run_python(sandbox, f"open('sparse', 'w').truncate({size})")
    try:
        content = sandbox.read(["sparse"], limit_bytes=1 << 20)
    except GuestError:
        return answers(sandbox)
    return f"read {sum(map(len, content.values()))} bytes"


def keeps_marks(sandbox: Sandbox) -> str:
    """Two sandboxes must not see each other's files: each leaves a mark and finds its own."""
    mark = uuid.uuid4().hex
    sandbox.write({"mark": mark.encode()})
    source = f"import os\nprint(open('mark').read() == {mark!r})"
    return "" if run_python(sandbox, source).stdout == b"True\n" else "its own mark is gone"


FIND_MARKS = """
import os
seen = []
for top in ("/tmp", "/var/tmp", "/scratch"):
    for folder, _, files in os.walk(top):
        seen += [os.path.join(folder, name) for name in files if name == "mark"]
print(len(seen))
"""


def finds_only_its_mark(sandbox: Sandbox) -> str:
    seen = int(run_python(sandbox, FIND_MARKS).stdout)
    return "" if seen <= 1 else f"{seen} marks in sight"


# Beside the code of this repository: neither temporary, nor closed to other users.
HOST_FILE = Path(__file__).with_name("only-the-host-reads-this")


def leaves_a_file_on_the_host() -> None:
    HOST_FILE.write_text("secret")
    HOST_FILE.chmod(0o644)


def reads_its_interpreter(sandbox: Sandbox) -> str:
    source = "import os\nprint(len(open(os.__file__).read()) > 1000)"
    return "" if run_python(sandbox, source).stdout == b"True\n" else "no interpreter to read"


FIND_HOST = """
import os, sys
for path in (sys.argv[1], f"/proc/1/root{sys.argv[1]}", f"/proc/1/cwd/../../../..{sys.argv[1]}"):
    if os.path.lexists(path):
        print(path)
"""


def reads_the_host(sandbox: Sandbox) -> str:
    """Only what the interpreter needs is in sight: no file of a person, no folder of a service."""
    try:
        found = sandbox.exec(["python3", "-c", FIND_HOST, str(HOST_FILE)]).stdout.decode()
    finally:
        HOST_FILE.unlink(missing_ok=True)
    return f"in sight: {found.split()}" if found.strip() else ""


HOLD = """
import fcntl, os, sys
held = []
def hold(args, channel):
    for path in (os.__file__, os.path.realpath(sys.executable), "/bin/sh"):
        held.append(open(path, "rb"))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return len(held)
OPERATIONS = {"locks.hold": hold}
"""
TRY_LOCKS = """
import fcntl, os, sys
for path in (os.__file__, os.path.realpath(sys.executable), "/bin/sh"):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            print(path, error)
"""


def holds_locks(sandbox: Sandbox) -> str:
    """The worker keeps what it locks, for as long as the sandbox is open."""
    sandbox.install("locks", HOLD)
    return (
        ""
        if sandbox.request("locks.hold", {}, timeout_sec=20) == 3
        else "its files cannot be locked"
    )


def locks_its_own(sandbox: Sandbox) -> str:
    source = "import fcntl\nfcntl.flock(open('mine', 'w'), fcntl.LOCK_EX)\nprint('locked')"
    return "" if run_python(sandbox, source).stdout == b"locked\n" else "it cannot lock a file"


def meets_locks(sandbox: Sandbox) -> str:
    return run_python(sandbox, TRY_LOCKS).stdout.decode()


CHECKS = [
    Check("reading traps", "", reads_plain, reads_traps),
    Check("paths out of the work folder", "", writes_plain, leaves_folder),
    Check("writing through planted links", "", writes_plain, writes_through_links),
    Check("reading more than was asked for", "", reads_plain, reads_huge),
    Check("files of other sandboxes", "peers", keeps_marks, finds_only_its_mark, keeps_marks),
    Check(
        "files of the host",
        "host",
        reads_its_interpreter,
        reads_the_host,
        before=leaves_a_file_on_the_host,
    ),
    Check("locks of other sandboxes", "locks", locks_its_own, meets_locks, holds_locks),
]
