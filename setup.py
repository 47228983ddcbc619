"""Puts the top-level data folders into the wheel, as `meta_agent/_data/<folder>`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("harness_repo", "sandboxes", "skills_library", "examples/recorded-run")


class BuildWithData(build_py):
    """`build_py`, then a copy of each data folder."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for folder in FOLDERS:
            target = Path(self.build_lib) / "meta_agent" / "_data" / folder
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithData})
