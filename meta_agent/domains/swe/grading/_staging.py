"""Puts a tree into a sandbox as `repo/`: scripts can be run, what stayed in the image is linked."""

from __future__ import annotations

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import Sandbox
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._tree import Tree


def place(sandbox: Sandbox, row: SweRow, tree: Tree) -> None:
    """Trees have no file modes; a file that names its interpreter is one to be run."""
    files = {f"repo/{path}": content for path, content in tree.items()}
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    sandbox.write({path: content for path, content in files.items() if path not in scripts})
    if scripts:
        sandbox.write(scripts, executable=True)
    for name in row.source.kept_names if row.source else ():
        target = f"{(row.source.image_path if row.source else '') or ''}/{name}"
        linked = sandbox.exec(["ln", "-s", "--", target, f"repo/{name}"])
        if linked.exit_code != 0:
            raise SandboxError(f"cannot link {target}: {linked.stderr[-200:]!r}", kind="start")
