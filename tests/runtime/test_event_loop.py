"""What the program does to the process before its event loop runs."""

from __future__ import annotations

import gc

from growd.runtime.event_loop import run_on_loop


def test_objects_from_before_the_loop_are_not_garbage_collected():
    async def counted() -> tuple[int, int]:
        return gc.get_freeze_count(), len(gc.get_objects())

    try:
        frozen, looked_through = run_on_loop(counted())
    finally:
        gc.unfreeze()
    assert frozen > 10 * looked_through
