"""Malformed recipes with the place of the error; growd, schema and database refuse them."""

AIR = "air_temperature"
OPERATION = [0, AIR, 20]
SPAN = {"start_time": 0, "end_time": 12, "value": 20}
STEP_PHASE = {"name": "day", "cycles": 2, "time_units": "hours", "step": {AIR: [SPAN]}}
POINT = {"at": 0, "value": 20}
TIMED_PHASE = {
    "duration": 2,
    "time_units": "days",
    "course": {AIR: [POINT | {"to_next": "ramp"}, {"at": 1, "value": 25}]},
}


def _simple(*operations):
    return {"format": "simple", "operations": list(operations)}


def _flexible(**change):
    return {"format": "flexformat", "phases": [STEP_PHASE, STEP_PHASE | change]}


def _span(**change):
    return _flexible(step={AIR: [SPAN | change]})


def _timed(**change):
    return {"format": "phased", "phases": [TIMED_PHASE, TIMED_PHASE | change]}


def _daily(**change):
    return _timed(course={}, daily={AIR: [POINT | {"at": "06:00"} | change]})


def _without(whole, name):
    return {key: value for key, value in whole.items() if key != name}


SOUND = [_simple(OPERATION, [9, AIR, 21.5]), _flexible(), _span(value=False), _timed(), _daily()]
"""One of each format and more."""

MALFORMED = [
    ({}, "/format"),
    ({"format": 5}, "/format"),
    ({"format": "simple"}, "/operations"),
    ({"format": "simple", "operations": {}}, "/operations"),
    (_simple(), "/operations"),
    (_simple("x"), "/operations/0"),
    (_simple([0, AIR]), "/operations/0"),
    (_simple([0, AIR, 20, 5]), "/operations/0"),
    (_simple(OPERATION, ["1", AIR, 1]), "/operations/1/0"),
    (_simple([-1, AIR, 1]), "/operations/0/0"),
    (_simple([True, AIR, 1]), "/operations/0/0"),
    (_simple([0, 7, 1]), "/operations/0/1"),
    (_simple([0, AIR, [1]]), "/operations/0/2"),
    (_simple([0, AIR, None]), "/operations/0/2"),
    (_simple([0, AIR, "20"]), "/operations/0/2"),
    *(
        ({"format": name, "phases": phases}, "/phases")
        for name in ("flexformat", "phased")
        for phases in ({}, [])
    ),
    ({"format": "flexformat"}, "/phases"),
    ({"format": "phased"}, "/phases"),
    ({"format": "flexformat", "phases": [5]}, "/phases/0"),
    ({"format": "phased", "phases": [[]]}, "/phases/0"),
    (_flexible(name=1), "/phases/1/name"),
    (_flexible(cycles=0), "/phases/1/cycles"),
    (_flexible(cycles=1.5), "/phases/1/cycles"),
    (_flexible(cycles="2"), "/phases/1/cycles"),
    (_flexible(time_units="weeks"), "/phases/1/time_units"),
    (_flexible(variable_units="lux"), "/phases/1/variable_units"),
    (_flexible(step=[]), "/phases/1/step"),
    (_flexible(step={}), "/phases/1/step"),
    (_flexible(step={AIR: 1}), f"/phases/1/step/{AIR}"),
    (_flexible(step={AIR: [1]}), f"/phases/1/step/{AIR}/0"),
    (_span(start_time=-1), f"/phases/1/step/{AIR}/0/start_time"),
    (_span(end_time=None), f"/phases/1/step/{AIR}/0/end_time"),
    (_span(end_time=0), f"/phases/1/step/{AIR}/0/end_time"),
    (_span(value="20"), f"/phases/1/step/{AIR}/0/value"),
    (_flexible(step={AIR: [_without(SPAN, "value")]}), f"/phases/1/step/{AIR}/0/value"),
    (_timed(name=None), "/phases/1/name"),
    (_timed(description=[]), "/phases/1/description"),
    (_timed(cycles=2), "/phases/1/cycles"),
    (_timed(duration=0), "/phases/1/duration"),
    (_timed(duration="2"), "/phases/1/duration"),
    (_timed(cycle=-1, course={}), "/phases/1/cycle"),
    (_timed(cycle=None), "/phases/1/cycle"),
    (_timed(time_units="milliseconds"), "/phases/1/time_units"),
    (_timed(otherwise="keep"), "/phases/1/otherwise"),
    (_timed(otherwise=["hold"]), "/phases/1/otherwise"),
    (_timed(course=None), "/phases/1/course"),
    (_timed(daily=[]), "/phases/1/daily"),
    (_timed(course={AIR: []}), f"/phases/1/course/{AIR}"),
    (_timed(course={AIR: [1]}), f"/phases/1/course/{AIR}/0"),
    (_timed(course={AIR: [POINT | {"at": -1}]}), f"/phases/1/course/{AIR}/0/at"),
    (_timed(course={AIR: [POINT | {"at": "06:00"}]}), f"/phases/1/course/{AIR}/0/at"),
    (_timed(course={AIR: [POINT | {"value": None}]}), f"/phases/1/course/{AIR}/0/value"),
    (_timed(course={AIR: [POINT | {"to_next": "cubic"}]}), f"/phases/1/course/{AIR}/0/to_next"),
    (_timed(course={AIR: [POINT | {"a/b": 1}]}), f"/phases/1/course/{AIR}/0/a~1b"),
    (_daily(at="24:00"), f"/phases/1/daily/{AIR}/0/at"),
    (_daily(at="6:00"), f"/phases/1/daily/{AIR}/0/at"),
    (_daily(at=6), f"/phases/1/daily/{AIR}/0/at"),
    (_daily(to_next=1), f"/phases/1/daily/{AIR}/0/to_next"),
]
"""What is wrong, and where."""
