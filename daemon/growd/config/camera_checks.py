"""Whether cameras go together with the rest of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.config.findings import Finding, at
from growd.config.web import is_http_address
from growd.runtime.text import without_login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.camera import Camera
    from growd.config.findings import Fault
    from growd.config.root import Config


def faults_of_cameras(config: Config) -> Iterator[Finding]:
    """Options of cameras that do not go together."""
    taken: dict[str, str] = {}  # cameras by what only one can use
    for environment, options in config.chambers().items():
        sensors, outputs = ({each.name for each in part} for part in (options.sensor, options.output))
        for number, camera in enumerate(options.camera):
            place = (*config.path(environment, "camera"), number)
            if camera.name in {"light"} | sensors | outputs:
                yield Finding((*place, "name"), f"{camera.name} is the name of another device")
            if camera.kind in {"rpicam", "v4l2"}:
                user = taken.setdefault(camera.place, camera.name)
                if user != camera.name:
                    yield Finding((*place, "kind"), f"{camera.place} is the camera {user} already")
            if camera.light is not None and not options.light.enabled:
                yield Finding((*place, "light"), "needs a lamp, and the environment has no [light]")
            yield from at(place, _faults_of_kind(config, camera))


def _faults_of_kind(config: Config, camera: Camera) -> Iterator[Fault]:
    url, is_http = camera.url, camera.kind == "http"
    if is_http and not (is_http_address(url) and url.isascii() and url.isprintable() and " " not in url):
        wanted = f"must be http://host/path or https://host/path, got {without_login(url)!r}"
        yield "url", f"of the camera {camera.name} {wanted}"
    if url and not is_http:
        yield "url", f"is for the kind http, and {camera.name} is {camera.kind}"
    if camera.kind == "simulated" and not config.simulator.enabled:
        yield "kind", "simulated needs [simulator] enabled = true"
