"""What the program does to the process before its event loop runs."""

from __future__ import annotations

import gc

from growd.runtime.event_loop import run_on_loop


def test_the_collector_leaves_out_what_was_there_before_the_loop():
    async def counted() -> tuple[int, int]:
        return gc.get_freeze_count(), len(gc.get_objects())

    try:
        frozen, looked_through = run_on_loop(counted())
    finally:
        gc.unfreeze()
    assert frozen > 10 * looked_through
