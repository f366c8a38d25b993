"""What the program does to the process before and after its event loop starts."""

import gc
from pathlib import Path

from growd.runtime.event_loop import return_free_memory, run_on_loop


def test_objects_from_before_the_loop_are_not_garbage_collected():
    async def counted():
        return gc.get_freeze_count(), len(gc.get_objects())

    try:
        frozen, looked_through = run_on_loop(counted())
    finally:
        gc.unfreeze()
    assert frozen > 10 * looked_through


def test_memory_that_is_free_below_memory_in_use_is_returned():
    blocks = [bytearray(8_000) for _ in range(4_000)]
    last = blocks.pop()
    blocks.clear()
    before = resident_pages()
    return_free_memory()
    assert before - resident_pages() > 4_000
    assert len(last) == 8_000


def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
