"""growd as a program of which one loop can be frozen: `python freezing.py LOOP ARGUMENT...`.

From SIGUSR1 on, what LOOP waits for never comes, or LOOP holds up the event loop with all the others. Its
patience is cut then, so that a test need not wait for minutes; that of no other is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Any

from growd.__main__ import main
from growd.control.actuation import Actuator
from growd.control.sampling import Sampler
from growd.liveness import Heartbeat
from growd.recipes.runner import RecipeRunner
from growd.store.couch import Couch
from growd.store.outbox import Outbox

PATIENCE_S = 2.0
LOOPS: dict[str, tuple[Any, str, str]] = {
    "event loop": (Sampler, "_sample", "-"),
    "sampler": (Sampler, "_sample", "/samplers/"),
    "actuator": (Actuator, "_apply", "/actuators/"),
    "recipe runner": (RecipeRunner, "_tick", "/recipe_runner"),
    "outbox": (Outbox, "_save", "outbox"),
    "shipper": (Couch, "bulk_docs", "shipper"),
}


def freeze_on_signal(loop: str) -> None:
    """Prepare it, from outside, in the classes that growd is made of."""
    kind, name, hearts = LOOPS[loop]
    work, is_stuck = getattr(kind, name), Heartbeat.is_stuck
    frozen = False

    def freeze(*_: object) -> None:
        nonlocal frozen
        frozen = True

    async def at_work(self: Any, *arguments: Any) -> Any:
        if frozen and loop == "event loop":
            time.sleep(3_600)  # noqa: ASYNC251  what no coroutine may do
        if frozen:
            await asyncio.Event().wait()
        return await work(self, *arguments)

    def asked(self: Heartbeat) -> bool:
        if frozen and hearts in self.name:
            self.patience_s = PATIENCE_S
        return is_stuck(self)

    setattr(kind, name, at_work)
    Heartbeat.is_stuck = asked  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, freeze)


if __name__ == "__main__":
    freeze_on_signal(sys.argv.pop(1))
    main()
