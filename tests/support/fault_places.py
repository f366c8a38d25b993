"""Each kind of fault on the wire with the places and the kinds of sensors where it can be."""

from growd_hwsim.chip import SENSORS
from growd_hwsim.fault_kinds import IN_CHAMBER, KINDS, PLACES, kinds_at

PLACES_OF = {
    kind: tuple(place for place in (*SENSORS, *PLACES) if kind in kinds_at(place))
    for kind in KINDS
    if kind not in IN_CHAMBER
}
