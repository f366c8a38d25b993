"""Tables of an exported run, as CSV or Parquet. Every call blocks."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from growd_analysis.points.csv_format import cell, iso_time, rounded_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd_analysis.runs.run_zip import RunZip, ZipMember

TIME, TEXT, NUMBER, WHOLE, FLAG = "time", "text", "number", "whole", "flag"
"""The types of columns. A time is UNIX seconds here, and a time in UTC with milliseconds in the file."""

_GROUP_ROWS: Final = 50_000


class Layout(NamedTuple):
    """A table: its name without an ending, and its columns with their types."""

    name: str
    columns: dict[str, str]


POINTS: Final = Layout(
    "points",
    {
        "time": TIME,
        "environment": TEXT,
        "category": TEXT,
        "variable": TEXT,
        "value": NUMBER,
        "unit": TEXT,
        "is_manual": FLAG,
        "by": TEXT,
    },
)
EVENTS: Final = Layout(
    "events",
    {"time": TIME, "environment": TEXT, "category": TEXT, "variable": TEXT, "value": TEXT, "by": TEXT},
)
PHOTOS: Final = Layout(
    "photos",
    {
        "time": TIME,
        "camera": TEXT,
        "file": TEXT,
        "sha256": TEXT,
        "canopy_cover": NUMBER,
        "canopy_greenness": NUMBER,
    },
)
"""Photos of cameras; `file` is the member of the ZIP file."""

STUDY: Final = Layout("study", {"section": TEXT, "field": TEXT, "value": TEXT})
"""Fields of MIAPPE 1.1, by their names there."""

OBSERVATIONS: Final = Layout(
    "observations",
    {
        "studyName": TEXT,
        "germplasmName": TEXT,
        "observationUnitDbId": TEXT,
        "observationUnitName": TEXT,
        "replicate": TEXT,
        "factor": TEXT,
        "modality": TEXT,
        "observationVariableName": TEXT,
        "scale": TEXT,
        "value": NUMBER,
        "observationTimeStamp": TIME,
        "collector": TEXT,
    },
)
"""Measurements by hand, with the names of BrAPI 2.1; `modality` is the treatment."""

ROLLUPS: Final = Layout(
    "rollups",
    {
        "time": TIME,
        "environment": TEXT,
        "category": TEXT,
        "variable": TEXT,
        "unit": TEXT,
        "count": WHOLE,
        "min": NUMBER,
        "mean": NUMBER,
        "max": NUMBER,
        "last": NUMBER,
        "last_time": TIME,
    },
)


class Table(Protocol):
    """A table that is being written."""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows, with a value for each column; None is an empty cell."""


class _Csv:
    def __init__(self, member: ZipMember, layout: Layout) -> None:
        self._member = member
        self._cells = [_timed if kind is TIME else cell for kind in layout.columns.values()]
        member.write((",".join(layout.columns) + "\r\n").encode())

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        lines = [
            ",".join([make(value) for make, value in zip(self._cells, row, strict=True)]) for row in rows
        ]
        if lines:
            self._member.write(("\r\n".join(lines) + "\r\n").encode(errors="replace"))


class _Parquet:
    """Needs pyarrow."""

    def __init__(self, path: Path, layout: Layout) -> None:
        import pyarrow as pa  # noqa: PLC0415  an optional extra
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

        from growd_analysis.points.parquet import array_of  # noqa: PLC0415

        self._pa, self._array_of = pa, array_of
        kinds = {
            TIME: pa.timestamp("ms", tz="UTC"),
            TEXT: pa.string(),
            NUMBER: pa.float64(),
            WHOLE: pa.int64(),
            FLAG: pa.bool_(),
        }
        self._schema = pa.schema([(name, kinds[kind]) for name, kind in layout.columns.items()])
        self._kinds = list(layout.columns.values())
        self._writer = ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[tuple[Any, ...]] = []

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._waiting += rows
        if len(self._waiting) >= _GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Write the rest."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._kinds)
        arrays = [
            self._array_of([*map(rounded_ms, column)] if kind is TIME else column, field.type)
            for kind, column, field in zip(self._kinds, columns, self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))


@contextmanager
def table(file: RunZip, layout: Layout, kind: str, scratch: Path) -> Iterator[Table]:
    """Write a table in the body; `kind` is "csv", or "parquet", which is made in the folder `scratch`."""
    name = f"{layout.name}.{kind}"
    if kind == "csv":
        with file.member(name) as member:
            yield _Csv(member, layout)
        return
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".growd-") as folder:
        path = Path(folder) / name
        made = _Parquet(path, layout)
        try:
            yield made
        finally:
            made.close()
        with path.open("rb") as whole:
            file.add_file(name, whole)


def _timed(value: Any) -> str:
    return "" if value is None else iso_time(value)
