"""Readers of public data sets: a file of rows in, typed rows or one clear `ConfigError` out."""

from meta_agent.domains.formats.swebench import SourceSpec, SweRow, read_swebench, semantic_key

__all__ = ["SourceSpec", "SweRow", "read_swebench", "semantic_key"]
