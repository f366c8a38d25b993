"""Set points that follow from other set points: of humidity from the deficit, of light from its integral."""
