"""Print the band of a variable for each hour of the last day, and the faults: day.py [URL [VARIABLE]]."""

import sys
from datetime import UTC, datetime

from growd_client import Growd, GrowdError


def main(url: str | None = None, variable: str = "air_temperature") -> None:
    with Growd(url) as growd:
        past = growd.history("environment_1", variable, points=25)  # a day touches 25 hours
    print(f"each {past.bucket_s / 3600:g} h, from (UTC)")
    for series in past.series:
        measured = series.measured
        for start, low, high in zip(measured.time, measured.min, measured.max, strict=True):
            if low is not None:
                print(f"{datetime.fromtimestamp(start, UTC):%d %H:%M}  {low:g} to {high:g} {series.unit}")
    for event in past.events:
        if event.kind == "fault":
            print(f"{datetime.fromtimestamp(event.time, UTC):%d %H:%M}  {event.source}: {event.message}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except GrowdError as error:
        sys.exit(str(error))
