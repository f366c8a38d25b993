"""Fixtures of the tests of faults."""

import random

import pytest


@pytest.fixture(autouse=True)
def same_dice():
    """The same jitter of retries in each run."""
    state = random.getstate()
    random.seed(4)
    yield
    random.setstate(state)


@pytest.fixture
def tick_rarely(monkeypatch):
    """Change the periods of loops, in seconds, by their full names: weeks of simulated time pass sooner."""

    def change(periods):
        for name, period in periods.items():
            monkeypatch.setattr(name, period)

    return change
