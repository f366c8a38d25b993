"""What a run is in an experiment: the members of `study`, of a recipe and at its start.

Source of the terms: MIAPPE 1.1 (Papoutsoglou et al. 2020, New Phytol. 227:260, doi:10.1111/nph.16544).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.recipes.errors import RecipeRefusedError
from growd.recipes.grammar import STUDY, fitting

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


def study_of(recipe: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The members of a valid recipe's `study`, and those that were `given` at the start, which win.

    Raises `RecipeRefusedError` if what was given is invalid.
    """
    if errors := fitting({"properties": {"study": STUDY}}, {"study": given})[1]:
        raise RecipeRefusedError("; ".join(map(str, errors)))
    return {**recipe.get("study", {}), **given}
