"""growd with loops that can be frozen: `python freezing.py ARGUMENT...`.

Each SIGUSR1 freezes the next of `LOOPS` and releases the previous one. The patience with the frozen loop is
shortened, so that a test need not wait for minutes. SIGUSR2 blocks the event loop for good.
"""

import asyncio
import signal
import time

from growd.control.actuation import Actuator
from growd.control.sampling import Sampler
from growd.recipes.runner import RecipeRunner
from growd.runtime.liveness import Heartbeat
from growd.store.couch import Couch
from growd.store.outbox import Outbox
from growd_cli.__main__ import main

PATIENCE_S = 1.0  # longer than any loop takes between two beats, at ten times the speed
LOOPS = {  # the call that does not return, and what its heartbeats are called
    "sampler": (Sampler, "_sample", "/samplers/"),
    "actuator": (Actuator, "_apply", "/actuators/"),
    "recipe runner": (RecipeRunner, "_tick", "/recipe_runner"),
    "outbox": (Outbox, "_make_durable", "outbox"),
    "shipper": (Couch, "bulk_docs", "shipper"),
}


class Freezer:
    """Replaces the calls of `LOOPS` by calls that can be frozen."""

    def __init__(self):
        self._frozen = ""
        self._next = iter([*LOOPS, ""])
        self._is_stuck = Heartbeat.is_stuck
        for loop, (kind, name, _) in LOOPS.items():
            setattr(kind, name, self._freezing(loop, getattr(kind, name)))
        Heartbeat.is_stuck = lambda heart: self._asked(heart)  # noqa: PLW0108
        signal.signal(signal.SIGUSR1, self._freeze_next)
        signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3_600))

    def _freeze_next(self, *_):
        self._frozen = next(self._next)

    def _freezing(self, loop, work):
        async def at_work(*arguments):
            while self._frozen == loop:  # noqa: ASYNC110  a signal has no event
                await asyncio.sleep(0.05)
            return await work(*arguments)

        return at_work

    def _asked(self, heart):
        if not self._frozen or LOOPS[self._frozen][2] not in heart.name:
            return self._is_stuck(heart)
        usual, heart.patience_s = heart.patience_s, PATIENCE_S
        try:
            return self._is_stuck(heart)
        finally:
            heart.patience_s = usual


if __name__ == "__main__":
    Freezer()
    main()
