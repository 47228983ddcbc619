"""Typed access to the fields of a JSON row: every complaint names file, line, field and value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON

_SHOWN_CHARS = 80


def shown(value: JSON) -> str:
    """A value as an error message shows it: JSON, cut short."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


@dataclass(frozen=True, slots=True)
class Fields:
    """One row of a JSONL file and where it stands."""

    path: Path
    line: int
    row: Mapping[str, JSON]

    def error(self, field: str, wanted: str, *, hint: str | None = None) -> ConfigError:
        """The one form of complaint about a field."""
        found = f"got {shown(self.row[field])}" if field in self.row else "it is missing"
        return ConfigError(
            f"{self.path}:{self.line}: field {field}: expected {wanted}, {found}", hint=hint
        )

    def text(self, field: str, default: str | None = None) -> str:
        """A string; `default` stands in for an absent or null field."""
        value = self.row.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.error(field, "a non-empty string" if default is None else "a string")
        return value

    def optional_text(self, *fields: str) -> str | None:
        """The first of several spellings of a field that is present, or None."""
        for field in fields:
            if self.row.get(field) is not None:
                return self.text(field)
        return None

    def texts(self, field: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of strings, written as a JSON list or as a string that holds one."""
        value = self.row.get(field)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            value = self._nested_json(field, value)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, "a list of strings (or a JSON string of one)")
        return tuple(value)

    def _nested_json(self, field: str, value: str) -> JSON:
        try:
            return document(value)
        except ValueError as problem:
            raise self.error(field, "a list of strings (or a JSON string of one)") from problem

    def nested(self, field: str) -> Fields | None:
        """An object inside the row, as fields of its own, or None where absent."""
        value = self.row.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(field, "an object")
        return Fields(self.path, self.line, value)
