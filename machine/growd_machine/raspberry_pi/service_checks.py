"""Checks of growd on the machine: service, user and groups, data folder, memory limits, watchdog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from growd_machine.data_folder import memory_below
from growd_machine.raspberry_pi.findings import SETUP, failed, unchecked, warned, well

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_machine.raspberry_pi.findings import PiFinding, PiScene

_GROUPS: Final = ("i2c", "gpio", "dialout")
_UNITS: Final = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
_WANTED: Final = "etc/systemd/system/multi-user.target.wants/growd.service"
_USER: Final = "growd"


def service_findings(scene: PiScene) -> Iterator[PiFinding]:
    """The service, and what it needs from the system."""
    yield from _service(scene)
    yield from _groups(scene)
    yield from _data(scene)
    yield from _memory_limits(scene)
    if scene.model is not None:
        yield from _watchdog(scene)


def _service(scene: PiScene) -> Iterator[PiFinding]:
    folder = next((place for place in _UNITS if scene.files.exists(f"{place}/growd.service")), None)
    if folder is None:
        yield warned("service", "growd is not installed as a service", "sudo growd install")
    elif not scene.files.exists(_WANTED):
        remedy = "sudo systemctl enable --now growd"
        yield warned("service", "growd is installed, but does not start with the machine", remedy)
    else:
        yield well("service", "growd is installed and starts with the machine")


def _groups(scene: PiScene) -> Iterator[PiFinding]:
    """The service has its groups from its unit; a person who runs growd by hand must be in them."""
    groups: dict[str, list[str]] = {}
    for line in (scene.files.text("etc/group") or "").splitlines():
        name, _, rest = line.partition(":")
        groups[name] = rest.rpartition(":")[2].split(",")
    has_user = f"\n{_USER}:" in f"\n{scene.files.text('etc/passwd') or ''}"
    missing = [name for name in _GROUPS if name not in groups]
    if has_user and missing:
        remedy = "sudo systemd-sysusers"
        yield failed("groups", f"the groups {', '.join(missing)} of the service do not exist", remedy)
    elif has_user:
        yield well("groups", f"the service has the groups {', '.join(_GROUPS)}")
    outside = [name for name in _GROUPS if name in groups and scene.user not in groups[name]]
    if scene.user and outside:
        remedy = f"sudo usermod -aG {','.join(outside)} {scene.user}, then log in again"
        yield warned("groups", f"{scene.user} is not in {', '.join(outside)}, to use devices by hand", remedy)


def _data(scene: PiScene) -> Iterator[PiFinding]:
    memory = memory_below(scene.data, scene.files.root)
    if memory is None:
        is_there = scene.files.exists(str(scene.data).lstrip("/"))
        state = "is on a disk" if is_there else "does not exist yet, and will be on a disk"
        yield well("data folder", f"{scene.data} {state}")
    else:
        yield failed(
            "data folder",
            f"{scene.data} is in memory ({memory}): its points are lost at a power cut and a reboot",
            'put it on a partition of its own: docs/raspberry-pi.md, "Read-only root"',
        )


def _memory_limits(scene: PiScene) -> Iterator[PiFinding]:
    controllers = scene.files.text("sys/fs/cgroup/cgroup.controllers")
    if controllers is None and not scene.files.exists("sys/fs/cgroup/memory"):
        yield unchecked("memory limits", "/sys/fs/cgroup can't be read")
    elif controllers is None or "memory" in controllers.split():
        yield well("memory limits", "the kernel limits the memory of services")
    else:
        yield warned("memory limits", "the kernel does not limit the memory of services", SETUP)


def _watchdog(scene: PiScene) -> Iterator[PiFinding]:
    patterns = (
        "etc/systemd/system.conf",
        "*/systemd/system.conf.d/*.conf",
        "usr/lib/systemd/system.conf.d/*.conf",
    )
    places = [place for pattern in patterns for place in scene.files.found(pattern)]
    texts = [scene.files.text(place) or "" for place in places]
    is_fed = any(re.search(r"^RuntimeWatchdogSec=(?!0|off)\S", text, re.MULTILINE) for text in texts)
    if not scene.files.found("sys/class/watchdog/watchdog*"):
        yield warned("watchdog", "there is no hardware watchdog", SETUP)
    elif not is_fed:
        remedy = "sudo growd install --hardware-watchdog"
        yield warned(
            "watchdog", "systemd does not feed the hardware watchdog: a hanging Pi stays as it is", remedy
        )
    else:
        yield well("watchdog", "it resets a hanging Pi")
