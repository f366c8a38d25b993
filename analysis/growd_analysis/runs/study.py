"""The experiment of a run, in the terms of MIAPPE 1.1 and BrAPI 2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.recipes.study import TERMS
from growd.store.exporting.csv_format import iso_time

if TYPE_CHECKING:
    from collections.abc import Mapping


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
