"""Task files in the user's cache: a record that is incomplete is as good as none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_agent.domains.formats.public import made_before, made_of


@pytest.mark.parametrize("key", ["origin", "sha256"])
@pytest.mark.parametrize("value", [None, 7, ["x"]])
def test_a_cached_record_without_origin_or_hash_is_a_miss(
    key: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = made_of("a-set", lambda: iter([{"prompt": "p"}]), "somewhere")
    assert made_before("a-set") == made
    (record,) = tmp_path.rglob("a-set*.json")
    fields = json.loads(record.read_text())
    fields.pop(key)
    record.write_text(json.dumps(fields if value is None else {**fields, key: value}))
    assert made_before("a-set") is None
