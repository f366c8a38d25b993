"""The Parquet files of `growd cloud export`: a folder for each month and device. Blocking.

Needs pyarrow (the extra `parquet`).
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from growd_analysis.points.csv_format import CsvFormat
from growd_analysis.points.parquet import array_of
from growd_cloud.export_state import ExportFolderError, Partition
from growd_cloud.months import Month

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from growd_cloud.export_state import ExportState, ReadPlace

_BASE: Final = (
    ("time", pa.timestamp("ms", tz="UTC")),
    ("environment", pa.string()),
    ("category", pa.string()),
    ("variable", pa.string()),
    ("value", pa.float64()),
    ("text", pa.string()),
    ("unit", pa.string()),
    ("is_manual", pa.bool_()),
    ("id", pa.string()),
)
SCHEMAS: Final = {
    "points": pa.schema(_BASE),
    "events": pa.schema([*_BASE, ("by", pa.string()), ("details", pa.string())]),
}
_ORDER: Final = [(name, "ascending") for name in ("environment", "category", "variable", "time", "id")]
_DELTAS: Final = {"id": "DELTA_BYTE_ARRAY", "time": "DELTA_BINARY_PACKED"}
_GROUP_ROWS: Final = 100_000
_SORTED_ROWS: Final = 500_000  # that a merge sorts in memory; above, it puts the parts one behind another
MERGED_AT_ONCE: Final = 8  # files of about one size


class PointTable:
    """Makes tables of the documents of one kind."""

    def __init__(self, kind: str) -> None:
        self._schema = SCHEMAS[kind]
        self._names = [name for name in self._schema.names if name != "text"]
        self._form = CsvFormat(["_id" if name == "id" else name for name in self._names])

    def table(self, documents: Sequence[dict[str, Any]]) -> Any:
        """The documents as a table, in their order. Raises `ValueError`."""
        raw = [msgspec.Raw(json.dumps({"key": None, "value": each}).encode()) for each in documents]
        columns = dict(zip(self._names, self._form.values(self._form.rows(raw)), strict=True))
        columns["text"] = [None if _is_number(value) else value for value in columns["value"]]
        columns["value"] = [value if _is_number(value) else None for value in columns["value"]]
        arrays = [array_of(columns[field.name], field.type) for field in self._schema]
        return pa.Table.from_arrays(arrays, schema=self._schema)


class PartitionedFiles:
    """Writes tables into the partitions of a state, each id once."""

    def __init__(self, state: ExportState) -> None:
        self._state = state
        self._stopped = Event()

    def stop(self) -> None:
        """Begin no further merge."""
        self._stopped.set()

    def write(self, kind: str, tables: Sequence[Any], place: ReadPlace) -> int:
        """Write the rows that no file has, then move the place; how many they were."""
        rows = 0
        with self._state.explained():
            for partition, table in _partitions(kind, tables):
                fresh = self._fresh(partition, table)
                if fresh.num_rows:
                    self._state.add(self._written(kind, [fresh.sort_by(_ORDER)]), partition)
                    rows += fresh.num_rows
            self._state.set_place(place)
        return rows

    def merge(self, present: Month) -> int:
        """Merge small files, and all of a partition before the present month; how many merges."""
        merges, month = 0, _folder(present)
        with self._state.explained():
            for partition in [*self._state.split_partitions(month, MERGED_AT_ONCE)]:
                files = self._state.files(partition)
                for group in [files] if partition.month < month else _alike(files):
                    if self._stopped.is_set():
                        return merges
                    self._state.replace(group, self._written(partition.kind, _rows(group)), partition)
                    merges += 1
        return merges

    def _fresh(self, partition: Partition, table: Any) -> Any:
        """The rows of a table whose ids no file has, each once."""
        ids = table["id"].to_pylist()
        first = {one: row for row, one in reversed([*enumerate(ids)])}
        known = [first[one] != row for row, one in enumerate(ids)]
        for path in self._state.files(partition):
            file = _opened(path)
            if _may_have(file, min(ids), max(ids)):
                wanted = pa.array(ids)
                for batch in file.iter_batches(columns=["id"], use_threads=False):
                    found = pc.is_in(wanted, value_set=batch.column(0)).to_pylist()
                    known = [old or new for old, new in zip(known, found, strict=True)]
        return table.filter(pa.array([not one for one in known]))

    def _written(self, kind: str, tables: Iterable[Any]) -> Path:
        """A file of `staging` with these rows, on the disk."""
        path, schema = self._state.staging / "new.parquet", SCHEMAS[kind]
        dictionaries = [name for name in schema.names if name not in _DELTAS and name != "is_manual"]
        with path.open("wb") as target:
            with parquet.ParquetWriter(
                target,
                schema,
                compression="zstd",
                use_dictionary=dictionaries,
                column_encoding=_DELTAS,
                write_statistics=True,
            ) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=_GROUP_ROWS)
            target.flush()
            os.fsync(target.fileno())
        return path


def _rows(files: Sequence[Path]) -> Iterator[Any]:
    """The rows of files, in order if they are few."""
    opened = [_opened(path) for path in files]
    if sum(file.metadata.num_rows for file in opened) <= _SORTED_ROWS:
        yield pa.concat_tables([file.read(use_threads=False) for file in opened]).sort_by(_ORDER)
        return
    for file in opened:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


def _opened(path: Path) -> Any:
    try:
        return parquet.ParquetFile(path)
    except pa.ArrowException as error:
        raise ExportFolderError(
            f"{path} is damaged ({error}): put a copy back, or export into an empty folder"
        ) from None


def _may_have(file: Any, first: str, last: str) -> bool:
    """Whether a file may have ids from `first` to `last`, by its statistics."""
    column = file.schema_arrow.names.index("id")
    ends = [file.metadata.row_group(group).column(column).statistics for group in range(file.num_row_groups)]
    return any(each is None or (each.min <= last and each.max >= first) for each in ends)


def _partitions(kind: str, tables: Sequence[Any]) -> Iterator[tuple[Partition, Any]]:
    """The rows of each partition."""
    table = pa.concat_tables(tables)
    places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, one in enumerate(table["id"].to_pylist()):
        places[_folder(Month.at(int(one[13:26]) / 1000)), one[:12]].append(row)
    for (month, device), rows in sorted(places.items()):
        yield Partition(kind, month, device), table.take(pa.array(rows))


def _folder(month: Month) -> str:
    """The name of a month in folders: 2026-11."""
    return f"{month.year:04d}-{month.month:02d}"


def _alike(files: Sequence[Path]) -> list[list[Path]]:
    """Groups of files of about one size, so that a row is rewritten a few times only."""
    sizes: defaultdict[int, list[Path]] = defaultdict(list)
    for path in files:
        sizes[int(math.log(_opened(path).metadata.num_rows, MERGED_AT_ONCE))].append(path)
    return [group for group in sizes.values() if len(group) >= MERGED_AT_ONCE]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
