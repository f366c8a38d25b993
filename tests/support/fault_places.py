"""Each kind of fault with the places and the kinds of sensors where it can be."""

from __future__ import annotations

from growd_hwsim.chip import SENSORS
from growd_hwsim.fault_kinds import KINDS, PLACES, kinds_at

PLACES_OF = {kind: tuple(place for place in (*SENSORS, *PLACES) if kind in kinds_at(place)) for kind in KINDS}
