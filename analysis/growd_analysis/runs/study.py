"""The experiment of a run, in the terms of MIAPPE 1.1 and BrAPI 2.1.

MIAPPE: Papoutsoglou et al. 2020, New Phytol. 227:260, doi:10.1111/nph.16544.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd_analysis.points.csv_format import iso_time

if TYPE_CHECKING:
    from collections.abc import Mapping


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
