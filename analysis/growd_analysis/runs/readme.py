"""The README.txt of an exported run."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from growd.store.run_documents import short_id
from growd.variables import VARIABLES
from growd_analysis.points.csv_format import iso_time
from growd_analysis.runs.archive import AFTER_DAYS, MOST_MEASUREMENTS, MOST_NOTES
from growd_analysis.runs.tables import EVENTS, OBSERVATIONS, PHOTOS, POINTS, ROLLUPS, STUDY

if TYPE_CHECKING:
    from collections.abc import Mapping


_WIDTH: Final = 100
_FORM: Final = """\
All times are in UTC, in ISO 8601. Tables have a header, commas and CRLF (CSV, RFC 4180), or are
Parquet. An empty cell is a value that does not exist, such as a released set point.
"""

_POINTS: Final = """\
In the points, category is measured (value of a sensor, or by hand with is_manual), desired (set
point) or commanded (command of an output, 0 to 1). A value holds until the next one of its category
and variable; one that is measured or commanded holds for 660 s at most (more with a longer [store]
maximum_interval_s), and a measured one not beyond a fault of its sensor. While an interlock keeps
the CO2 valve closed, the commands of the valve stay; see the events interlock. The first point may
be from before the start: it is the value at the start. Points are stored when a value changes, at
irregular times: before you average, weight each value with the time until the next one.
"""

_EVENTS: Final = """\
In the events, category is quality (of a measured variable: ok, warm-up, stale or fault), event (the
variable is its kind) or desired (recipe_start and recipe_end, with the id of the recipe).
"""

_ALL_RAW: Final = "The tables have all points as they were stored; none of the run had been retired."

_RETIRED: Final = """\
Before {time} measured and commanded points had been retired. The rollups have five-minute buckets
in their place: time is the begin of a bucket; count, min, mean and max are those of its points;
last is the newest value, at last_time (empty: released). Measurements by hand are part of the
buckets, and points of their own. Set points, qualities and events are complete. replay.csv has the
last value of each bucket.
"""

_USE: Final = """Check the files: sha256sum -c SHA256SUMS
Replay the run in growd's simulator: growd run --set simulator.replay=FILE.zip (or replay.csv)"""


def readme(
    described: Mapping[str, Any], kind: str, counts: Mapping[str, int], end: float, raw_from: float
) -> str:
    """What each member is, with units."""
    run = described["run"]
    heading = f"Run {short_id(run['_id'])} of the recipe {run['recipe_id']} in {run['environment']}"
    source = _ALL_RAW if raw_from <= run["started"] else _RETIRED.format(time=iso_time(raw_from))
    paragraphs = (
        heading,
        _aligned(_facts(run, end)),
        fill(_FORM, _WIDTH),
        _aligned(_members(kind, counts, described, raw_from)),
        fill(source, _WIDTH),
        fill(_POINTS, _WIDTH),
        fill(_EVENTS, _WIDTH),
        f"Units by variable:\n{_aligned({one.name: one.unit or '1' for one in VARIABLES.values()})}",
        _USE,
    )
    return "\n\n".join(paragraphs) + "\n"


def _facts(run: Mapping[str, Any], end: float) -> dict[str, str]:
    state = "" if run["ended"] is not None else " (the run had not ended at the export)"
    return {
        "id": run["_id"],
        "start": iso_time(run["started"]),
        "end": iso_time(end) + state,
        "how it ended": run.get("end_reason") or "",
        "growd": run.get("growd") or "not recorded",
    }


def _members(
    kind: str, counts: Mapping[str, int], described: Mapping[str, Any], raw_from: float
) -> dict[str, str]:
    notes, measurements = len(described["notes"]), len(described["measurements"])
    notes_cut = f", the first {MOST_NOTES} of more" if notes == MOST_NOTES else ""
    cut = f", the first {MOST_MEASUREMENTS} of more" if measurements == MOST_MEASUREMENTS else ""
    retired = raw_from > described["run"]["started"]
    rollups = {f"{ROLLUPS.name}.{kind}": f"five-minute rollups of retired points ({counts['buckets']})"}
    return {
        "run.json": "the record: who, when, configuration, calibrations, figures; times in UNIX seconds",
        "recipes/": "the recipe at the start (1.json) and each that took over, in their order",
        f"{POINTS.name}.{kind}": f"points whose values are numbers ({counts['points']})",
        **(rollups if retired else {}),
        f"{EVENTS.name}.{kind}": f"events, qualities, marks of recipes ({counts['events']})",
        f"{STUDY.name}.{kind}": "the experiment, with the names of MIAPPE 1.1",
        f"{OBSERVATIONS.name}.{kind}": "measurements by hand and their treatment, with the names of BrAPI",
        "journal.json": f"notes ({notes}{notes_cut}), measurements by hand of variables without a sensor "
        f"({measurements}{cut}), until {AFTER_DAYS} days after the end or the start of the next run",
        "photos/": f"photos of the notes and, in a folder for each, of cameras ({counts['photos']})",
        f"{PHOTOS.name}.{kind}": "the photos of cameras: canopy_cover in percent, empty in the dark",
        "replay.csv": "measured values for the simulator: UNIX seconds, variable, value",
        "SHA256SUMS": "checksums of all other files",
    }


def _aligned(rows: Mapping[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {name.ljust(width)}  {text}".rstrip() for name, text in rows.items())
