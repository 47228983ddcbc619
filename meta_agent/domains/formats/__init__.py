"""Readers of public data sets: a file of rows in, typed rows or one clear `ConfigError` out."""

from meta_agent.domains.formats._swe_row import OfficialRun, SourceSpec, SweRow, semantic_key
from meta_agent.domains.formats.code_sets import CodeRow
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.formats.rows import TaskFile
from meta_agent.domains.formats.swebench import read_swebench

__all__ = [
    "CodeRow",
    "MathRow",
    "OfficialRun",
    "SourceSpec",
    "SweRow",
    "TaskFile",
    "read_swebench",
    "semantic_key",
]
