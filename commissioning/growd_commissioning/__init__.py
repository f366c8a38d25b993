"""Experiments that a grower asks for now and then: autotune, calibrations of lamp and pumps, self-test."""
