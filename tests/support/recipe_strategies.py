"""Valid and invalid recipes for property tests, and helpers for findings."""

import math
from itertools import pairwise

from hypothesis import strategies as st

from growd.recipes.interpreter import check
from growd.variables import VARIABLES

NAMED = ("air_temperature", "air_humidity", "light_illuminance", "air_flush_on")
VALUES = tuple(number / 4 for number in range(5))  # in the range of each variable, and exact
TIMES = tuple(number / 4 for number in range(97))  # exact in every unit of a second or more
CLOCK = tuple(f"{number // 4:02}:{15 * (number % 4):02}" for number in range(96))
SHAPES = ({}, {"to_next": "hold"}, {"to_next": "ramp"}, {"to_next": "sine"})
VARIABLE = st.sampled_from(NAMED)
NAMES = st.sampled_from(
    [
        *("format", "operations", "simple", "flexformat", "phased", "phases", "name", "time_units", "hours"),
        *("cycles", "step", "start_time", "end_time", "value", "duration", "otherwise", "daily", "course"),
        *("cycle", "at", "to_next", "sine", "06:00", "air_temperature", "a", "\ud800"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 30),
    st.sampled_from([10**400, -(10**400), 2**63, 1e308, -0.0, 5e-324]),
    st.floats(),
    st.text(max_size=5),
    NAMES,
)
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)),
    max_leaves=30,
)


@st.composite
def mutated(draw, recipes):
    """A valid recipe with one to three members changed, added or removed."""
    recipe = draw(recipes)
    for _ in range(draw(st.integers(1, 3))):
        holders = [holder for holder in _holders(recipe) if holder]
        if not holders:
            break
        holder = draw(st.sampled_from(holders))
        key = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
        match draw(st.sampled_from(["change", "take away", "add"])):
            case "change":
                holder[key] = draw(GARBAGE)
            case "take away":
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(NAMES)] = draw(GARBAGE)
            case _:
                holder.append(draw(GARBAGE))
    return recipe


def _of_all(*choices):
    """One element of each, encoded in one number for `_taken`, since drawing one number is faster."""
    return st.integers(0, math.prod(map(len, choices)) - 1)


def _taken(number, *choices):
    taken = []
    for each in choices:
        number, place = divmod(number, len(each))
        taken.append(each[place])
    return taken


_EDGE = (TIMES, VALUES, (False, True))


def _made_spans(numbers, turn):
    """For each edge its time, the value from there on, and whether there is a gap; not after the last."""
    edges = sorted(_taken(number, *_EDGE) for number in numbers)
    last = edges[-1][0]
    spans = [
        {"start_time": start, "end_time": end, "value": value}
        for (start, value, is_gap), (end, _, _) in pairwise(edges)
        if not is_gap or end == last
    ]
    turned = spans[turn:] + spans[:turn]
    return turned[::-1] if turn % 2 else turned


# without overlaps, with gaps, unsorted
_SPANS = st.builds(
    _made_spans,
    st.lists(_of_all(*_EDGE), min_size=2, max_size=6, unique_by=lambda number: number % len(TIMES)),
    st.integers(0, 3),
)


@st.composite
def _flexible_phase(draw):
    return {
        "name": draw(st.sampled_from(["", "early", "late"])),
        "cycles": draw(st.integers(1, 4)),
        "time_units": draw(st.sampled_from(["days", "hours", "minutes", "seconds"])),
        "step": draw(st.dictionaries(VARIABLE, _SPANS, min_size=1, max_size=3)),
    }


@st.composite
def _phase(draw):
    unit, scale = draw(st.sampled_from([("days", 4), ("hours", 60), ("minutes", 600), ("seconds", 9_000)]))
    duration = draw(st.integers(1, scale))
    phase = {"name": "a", "duration": duration, "time_units": unit}
    named = draw(st.lists(VARIABLE, unique=True, max_size=3))
    split = draw(st.integers(0, len(named)))
    phase["daily"] = {variable: draw(_points(CLOCK)) for variable in named[:split]}
    end = float(duration)
    if draw(st.booleans()):
        phase["cycle"] = draw(st.integers(1, 8)) * duration / 8
        end = min(end, phase["cycle"])
    times = [number * end / 16 for number in range(16)]
    phase["course"] = {variable: draw(_points(times)) for variable in named[split:]}
    if draw(st.booleans()):
        phase["otherwise"] = draw(st.sampled_from(["hold", "release"]))
    return phase


@st.composite
def _points(draw, times):
    """Set points at different times, unsorted."""
    point = (times, VALUES, SHAPES)
    numbers = st.lists(_of_all(*point), min_size=1, max_size=4, unique_by=lambda number: number % len(times))
    return [
        {"at": at, "value": value, **shape}
        for at, value, shape in (_taken(number, *point) for number in draw(numbers))
    ]


_OPERATION = (TIMES, NAMED, VALUES)
SIMPLE = st.lists(_of_all(*_OPERATION), min_size=1, max_size=20).map(
    lambda numbers: {"format": "simple", "operations": [_taken(number, *_OPERATION) for number in numbers]}
)
FLEXFORMAT = st.lists(_flexible_phase(), min_size=1, max_size=3).map(
    lambda phases: {"format": "flexformat", "phases": phases}
)
PHASED = (
    st.lists(_phase(), min_size=1, max_size=3)
    .filter(lambda phases: any(phase["daily"] or phase["course"] for phase in phases))
    .map(lambda phases: {"format": "phased", "phases": phases})
)


def findings(recipe):
    """Severity and place of each finding."""
    return [(finding.severity.value, finding.pointer) for finding in check(recipe)]


def in_range(variable):
    return st.floats(VARIABLES[variable].minimum, VARIABLES[variable].maximum)


def at_pointer(document, pointer):
    """The value at a JSON pointer (RFC 6901); LookupError if there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def _holders(value):
    """Each object and array in a value, including itself."""
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)
