"""Rows of a view as Parquet (https://parquet.apache.org), with pyarrow (the extra `parquet`). Blocking."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from growd_analysis.points.csv_format import CsvFormat, number, stringify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_GROUP_ROWS: Final = 50_000
_TYPES: Final = {
    frozenset({str}): pa.string(),
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.float64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
}
"""The type of a column by the types of its values. Numbers are doubles; mixed types become text."""


def write_parquet(rows: Path, columns: Sequence[str], target: Path) -> None:
    """Write the rows of a view, one line of JSON each in `rows`, as Parquet.

    The rows are read twice, first for the types of the columns. Raises `ValueError` for an invalid row, and
    OSError.
    """
    form = CsvFormat(columns)
    kinds: list[set[type]] = [set() for _ in columns]
    for values in _groups(rows, form):
        for known, column in zip(kinds, values, strict=True):
            known.update(map(type, column))
    types = [_type_of(name, known) for name, known in zip(columns, kinds, strict=True)]
    schema = pa.schema(list(zip(columns, types, strict=True)))
    with ParquetWriter(target, schema, compression="zstd") as writer:
        for values in _groups(rows, form):
            arrays = [array_of(column, kind) for column, kind in zip(values, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _groups(rows: Path, form: CsvFormat) -> Iterator[list[list[Any]]]:
    """The values of each column, in groups of rows."""
    with rows.open("rb") as lines:
        while part := list(islice(lines, _GROUP_ROWS)):
            yield form.values(form.rows([msgspec.Raw(line) for line in part]))


def _type_of(name: str, kinds: set[type]) -> pa.DataType:
    if name == "time":
        return pa.timestamp("ms", tz="UTC")
    return _TYPES.get(frozenset(kinds - {type(None)}), pa.string())


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of this type: as text, any value; as a number or as a truth, None for what is none."""
    if kind == pa.string():
        values = [value if value is None or isinstance(value, str) else stringify(value) for value in values]
    elif kind == pa.float64():
        values = [None if value is None else _double(value) for value in values]
    elif kind == pa.bool_():
        values = [value if isinstance(value, bool) else None for value in values]
    return pa.array(values, kind)


def _double(value: float) -> float | None:
    """A double; None if it is out of range."""
    return float(value) if number(value) != "null" else None
