"""Watch CO2, and use less of it at night: evening.py [URL]. Ctrl-C ends it and releases the set point."""

import sys
from datetime import datetime, time

from growd_client import Growd, GrowdError

ENVIRONMENT, VARIABLE = "environment_1", "air_carbon_dioxide"
MORNING, EVENING = time(6), time(20)
DAY_PPM, NIGHT_PPM = 900, 500


def wanted(now: datetime) -> float:
    """The set point in ppm, by the time of day of this computer."""
    return DAY_PPM if MORNING <= now.time() < EVENING else NIGHT_PPM


def main(url: str | None = None) -> None:
    with Growd(url) as growd:
        current = None
        try:
            for message in growd.follow(f"{ENVIRONMENT}/measured/{VARIABLE}", throttle_s=60):
                if (target := wanted(datetime.now().astimezone())) != current:
                    posted = growd.set_point(ENVIRONMENT, VARIABLE, target, by="evening.py")
                    current = target
                    print(f"set point {target:g} ppm {posted.hint}".rstrip(), flush=True)
                value = message.quality if message.value is None else f"{message.value:.0f} ppm"
                print(f"{message.moment.astimezone():%H:%M} {value}", flush=True)
        finally:
            growd.release(ENVIRONMENT, VARIABLE, by="evening.py")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except GrowdError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
