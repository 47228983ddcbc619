"""Rows of a Parquet file, a few at a time.

A Parquet file of two kilobytes may honestly say that a value of ten megabytes stands in a hundred
thousand rows, or that one row is a list of a hundred million nothings. So how many rows are decoded
at once follows from what the file says of the size of its columns and the number of values in
lists, and a group of rows that is too large to be held, or far larger than its file, is refused.

Not covered: a file that lies about those sizes; Arrow believes them as well.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.parsing.strict import check_depth
from meta_agent.core.protocols import JSON

MAX_GROUP_BYTES: Final = 1 << 30
MAX_COLUMNS: Final = 4096
PACKED_BYTES: Final = 64 << 20
MAX_RATIO: Final = 100
_VALUE_BYTES: Final = 16  # of an element of a list that is nothing, in Arrow and in Python
_HELD_BYTES: Final = 24 << 20
_BATCH_ROWS: Final = 256


def parquet_module() -> Any:  # pyarrow has no types
    """Returns the module `pyarrow.parquet`. Raises PreflightError if it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise PreflightError(
            "Parquet files need pyarrow, which is not installed",
            hint="pip install pyarrow, or export the table as JSON lines",
        ) from error
    return parquet


def parquet_rows(path: Path) -> Iterator[dict[str, JSON]]:
    """Yields every row of a Parquet file in order, as JSON values by column name.

    Raises ConfigError if the file is damaged or too large, PreflightError without pyarrow.
    """
    module = parquet_module()
    try:
        with module.ParquetFile(path) as file:
            if file.metadata.num_columns > MAX_COLUMNS:
                raise ConfigError(
                    f"{path} has {file.metadata.num_columns} columns; the limit is {MAX_COLUMNS}",
                    hint="write the table again with the needed columns alone",
                )
            for group in range(file.metadata.num_row_groups):
                rows = _rows_at_once(path, file.metadata.row_group(group), file.schema)
                for batch in file.iter_batches(batch_size=rows, row_groups=[group]):
                    for row in batch.to_pylist():
                        check_depth(row)
                        yield {name: _json(value) for name, value in row.items()}
    except (OSError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        # Arrow's own errors are ValueErrors.
        raise ConfigError(
            f"cannot read {path} as Parquet: {error}",
            hint="make the file again, or export the table as JSON lines",
        ) from error


def _json(value: Any) -> JSON:
    """Returns a Parquet value as JSON: dates as ISO 8601, bytes in base64, other kinds as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_json(inner) for inner in value]
        case dict():
            return {str(name): _json(inner) for name, inner in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
        case date() | time():
            return value.isoformat()
    return str(value)


def _rows_at_once(path: Path, group: Any, schema: Any) -> int:
    """Returns how many rows to decode at once, so that they fit even if each is the largest.

    Raises ConfigError if the row group is too large.
    """
    columns = [group.column(n) for n in range(group.num_columns)]
    lists = [schema.column(n).max_repetition_level > 0 for n in range(group.num_columns)]
    size = sum(column.total_uncompressed_size for column in columns)
    size += sum(
        column.num_values * _VALUE_BYTES
        for column, many in zip(columns, lists, strict=True)
        if many
    )
    packed = sum(column.total_compressed_size for column in columns)
    most = MAX_GROUP_BYTES if packed * MAX_RATIO > size else PACKED_BYTES
    if not 0 <= size <= most:
        raise ConfigError(
            f"a row group of {path} has {size} bytes, packed into {packed}; the limit is {most}",
            hint="write the table again with smaller row groups, or as JSON lines",
        )
    return max(1, min(_BATCH_ROWS, _HELD_BYTES // max(1, int(size))))
