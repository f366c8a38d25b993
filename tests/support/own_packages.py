"""Packages with drivers, installed for a test: the example in tests/packages, and small bad ones."""

import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

from growd import own_kinds
from growd_hwsim.chip import SENSORS

EXAMPLES = Path(__file__).parents[1] / "packages"
EXAMPLE = EXAMPLES / "growd-sht31"
KIND = "sht31_example"


def wheel_of(project, folder):
    """Build the wheel of a project, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=50)
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpacked(wheel, folder):
    """As pip installs a wheel of Python alone."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def written(folder, package, kinds, source, group="growd.sensors"):
    """A package of one module, with the kinds `{name: attribute}`."""
    module = package.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
    lines = [f"{name} = {module}:{attribute}" for name, attribute in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    return folder


@contextmanager
def importable(folder):
    """The packages in a folder are installed for the body."""
    before, chips = set(sys.modules), dict(SENSORS)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        groups = (own_kinds.SENSORS, own_kinds.OUTPUTS)
        offered = [offer.name for group in groups for offer in own_kinds.offers(group)]
        sys.path.remove(str(folder))
        for name in offered:
            own_kinds.forget(name)
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        SENSORS.clear()
        SENSORS.update(chips)
