"""Readers of public data sets: a file of rows in, typed rows or one clear `ConfigError` out."""

from meta_agent.domains.formats.code_sets import CodeRow
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.formats.r2e import as_swe_row, resolved, split_rows
from meta_agent.domains.formats.rows import TaskFile
from meta_agent.domains.formats.swebench import (
    OfficialRun,
    SourceSpec,
    SweRow,
    read_swebench,
    semantic_key,
)

__all__ = [
    "CodeRow",
    "MathRow",
    "OfficialRun",
    "SourceSpec",
    "SweRow",
    "TaskFile",
    "as_swe_row",
    "read_swebench",
    "resolved",
    "semantic_key",
    "split_rows",
]
