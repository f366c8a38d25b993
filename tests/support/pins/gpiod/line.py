"""As `gpiod.line`."""

from enum import Enum


class Value(Enum):
    INACTIVE = 0
    ACTIVE = 1


class Bias(Enum):
    DISABLED = 3
    PULL_UP = 4
    PULL_DOWN = 5


class Direction(Enum):
    AS_IS = 1
    INPUT = 2
    OUTPUT = 3
