"""Tables of an exported run, as CSV or Parquet, and its experiment in the terms of MIAPPE 1.1 and BrAPI 2.1.

MIAPPE: Papoutsoglou et al. 2020, New Phytol. 227:260, doi:10.1111/nph.16544. Every call blocks.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from growd_analysis.points.csv_format import cell, iso_time, rounded_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from growd_analysis.runs.run_zip import RunZip, ZipMember

TIME, TEXT, NUMBER, WHOLE, FLAG = "time", "text", "number", "whole", "flag"
"""The types of columns. A time is UNIX seconds here, and a time in UTC with milliseconds in the file."""

_GROUP_ROWS: Final = 50_000


class Layout(NamedTuple):
    """A table: its name without an ending, and its columns with their types."""

    name: str
    columns: dict[str, str]


def _layout(name: str, columns: str) -> Layout:
    """A table whose columns are texts, but for those with another type behind a colon."""
    pairs = (column.partition(":") for column in columns.split())
    return Layout(name, {column: kind or TEXT for column, _, kind in pairs})


POINTS: Final = _layout(
    "points", "time:time environment category variable value:number unit is_manual:flag by"
)
EVENTS: Final = _layout("events", "time:time environment category variable value by")
PHOTOS: Final = _layout("photos", "time:time camera file sha256 canopy_cover:number canopy_greenness:number")
"""Photos of cameras; `file` is the member of the ZIP file."""
STUDY: Final = _layout("study", "section field value")
"""Fields of MIAPPE 1.1, by their names there."""
OBSERVATIONS: Final = _layout(
    "observations",
    "studyName germplasmName observationUnitDbId observationUnitName replicate factor modality "
    "observationVariableName scale value:number observationTimeStamp:time collector",
)
"""Measurements by hand, with the names of BrAPI 2.1; `modality` is the treatment."""
ROLLUPS: Final = _layout(
    "rollups",
    "time:time environment category variable unit count:whole min:number mean:number max:number last:number "
    "last_time:time",
)


class Table(Protocol):
    """A table that is being written."""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows, with a value for each column; None is an empty cell."""


class _Csv:
    def __init__(self, member: ZipMember, layout: Layout) -> None:
        self._member = member
        self._cells = [_timed if kind == TIME else cell for kind in layout.columns.values()]
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
            self._array_of([*map(rounded_ms, column)] if kind == TIME else column, field.type)
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


class Term(NamedTuple):
    """A field of MIAPPE: its section, and its name there."""

    section: str
    field: str


TERMS: Final = {
    "title": Term("Study", "Study title"),
    "material": Term("Biological Material", "Biological material ID"),
    "organism": Term("Biological Material", "Organism"),
    "cultivar": Term("Biological Material", "Infraspecific name"),
    "factor": Term("Experimental Factor", "Experimental Factor type"),
    "treatment": Term("Observation Unit", "Observation Unit factor value"),
    "unit": Term("Observation Unit", "Observation unit ID"),
    "replicate": Term("Observation Unit", "Spatial distribution"),
}
"""The members of `study`."""


def study_fields(run: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Section, field and value of what is known. A replicate is a level and its name, as in replicate:2."""
    study = _study(run)
    ended = run["ended"]
    known: dict[tuple[str, str], str] = {
        **{TERMS[name]: value for name, value in study.items()},
        TERMS["replicate"]: f"replicate:{study['replicate']}" if "replicate" in study else "",
        ("Study", "Start date of study"): iso_time(run["started"]),
        ("Study", "End date of study"): "" if ended is None else iso_time(ended),
    }
    return sorted((*term, value) for term, value in known.items() if value)


def observations(described: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The measurements by hand of a run, as rows of `OBSERVATIONS`."""
    run = described["run"]
    study = _study(run)
    names = ("unit", "replicate", "factor", "treatment")
    unit = (
        study.get("title"),
        study.get("cultivar") or study.get("material"),
        run["_id"],
        *map(study.get, names),
    )
    return [
        (*unit, each["variable"], each["unit"], each["value"], each["time"], each["by"] or None)
        for each in described["measurements"]
    ]


def _study(run: Mapping[str, Any]) -> dict[str, str]:
    return {"unit": run["_id"], **run.get("study", {})}
