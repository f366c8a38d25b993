"""A machine on a folder with installed versions of the real growd, and a stand-in for systemd."""

import asyncio
import hashlib
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from growd_machine.installation.bundle import write_bundle
from growd_machine.installation.sources import source_at
from growd_machine.installation.targets import target_of
from growd_machine.installation.tree import launcher_text

CHECKOUT = Path(__file__).parents[2]
_SYSTEMD = Path(__file__).with_name("upgrade_systemd")
OLD, NEW = "1.0.0", "1.1.0"


def write_version(folder, version, edits=None):
    """A version folder with the growd of this checkout; its other packages are those of the tests.

    `edits` has for a file of growd a piece of its text, and what is there instead; "" is the end of the file.
    """
    for name, content in source_at(CHECKOUT).files():
        file = folder / "lib" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    own = folder / "lib/growd/__init__.py"
    lines = own.read_text(encoding="utf-8").splitlines()
    changed = [f'__version__ = "{version}"' if line.startswith("__version__") else line for line in lines]
    own.write_text("\n".join(changed) + "\n", encoding="utf-8")
    for name, (before, after) in (edits or {}).items():
        file = folder / "lib" / name
        text = file.read_text(encoding="utf-8")
        assert before in text, f"{name} has no {before!r}"
        file.write_text(text.replace(before, after, 1) if before else text + after, encoding="utf-8")
    target = target_of(Path("/nowhere"))  # of the Python that runs the tests
    launcher = folder / "bin/growd"
    launcher.parent.mkdir()
    launcher.write_text(launcher_text(version, (target.python,), sys.executable), encoding="utf-8")
    launcher.chmod(0o755)
    information = {
        "version": version,
        "digest": hashlib.sha256(version.encode()).hexdigest(),
        "pythons": [target.python],
        "machine": target.machine,
        "database": False,
    }
    (folder / "version.json").write_text(json.dumps(information))


class InstalledMachine:
    """The old version is installed in `root`, and runs between `start` and `close`."""

    def __init__(self, root, configuration):
        self.root = root
        self.home = root / "opt/growd"
        self.data = root / "var/lib/growd"
        self.environment = {
            **os.environ,
            "UPGRADE_ROOT": str(root),
            "PATH": f"{_SYSTEMD}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for folder in ("run", "etc/growd", "etc/systemd/system", "var/lib/growd", "opt/growd/versions"):
            (root / folder).mkdir(parents=True)
        (root / "etc/growd/growd.toml").write_text(configuration)
        write_version(self.home / f"versions/{OLD}-old", OLD)
        (self.home / "current").symlink_to(f"versions/{OLD}-old")
        (self.home / "installed.json").write_text(json.dumps({"version": OLD, "profile": "minimal"}))

    @property
    def versions(self):
        """Those that `current` and `previous` choose."""
        chosen = (self.home / name for name in ("current", "previous"))
        current, previous = (
            json.loads((link / "version.json").read_text())["version"] if link.is_symlink() else None
            for link in chosen
        )
        assert current is not None
        return current, previous

    def bundle(self, version=NEW, edits=None):
        folder = self.root.with_name(f"growd-{version}")
        write_version(folder, version, edits)
        bundle = folder.with_suffix(".pyz")
        write_bundle(folder, bundle)
        return bundle

    async def run(self, *command):
        """The exit status of a program, and all its output."""
        process = await asyncio.create_subprocess_exec(
            *command, env=self.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        printed, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, printed.decode()

    async def growd(self, *arguments):
        return await self.run(self.home / "current/bin/growd", *arguments)

    async def upgrade(self, *arguments):
        return await self.growd("upgrade", *arguments, "--root", self.root)

    async def systemctl(self, *arguments):
        status, printed = await self.run("systemctl", *arguments)
        assert status == 0, printed
        return printed

    def log(self, unit):
        return (self.root / f"run/{unit}.log").read_text()


@asynccontextmanager
async def installed(root, configuration):
    machine = await asyncio.to_thread(InstalledMachine, root, configuration)
    await machine.systemctl("start", "growd.service")
    try:
        yield machine
    finally:
        await machine.systemctl("stop", "growd-upgrade.service", "growd.service")
