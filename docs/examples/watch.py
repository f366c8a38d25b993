"""Report when a measurement is lost and when it is back: watch.py [URL]. Ctrl-C ends it."""

import asyncio
import sys

from growd_client import AsyncGrowd, Disconnected, GrowdError, Quality, StreamEvent


def told(event: StreamEvent) -> None:
    print(event.why if isinstance(event, Disconnected) else type(event).__name__, flush=True)


async def main(url: str | None = None) -> None:
    async with AsyncGrowd(url) as growd:
        known = {
            f"{each.environment}/measured/{variable.variable}": variable.unit
            for each in await growd.environments()
            for variable in each.variables
            if variable.measured
        }
        qualities: dict[str, Quality] = {}
        async for message in growd.follow(*known, throttle_s=1, on_event=told):
            if qualities.get(message.topic) != message.quality:
                qualities[message.topic] = message.quality
                value = "" if message.value is None else f": {message.value:g} {known[message.topic]}"
                print(f"{message.topic} {message.quality}{value}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except GrowdError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
