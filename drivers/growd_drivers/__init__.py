"""Drivers of the chips in a growing chamber: synchronous, blocking, no asyncio, no daemon."""
