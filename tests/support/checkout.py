"""A checkout on a machine whose Python, pip, Node and npm are stand-ins, which fetch nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.processes import Ending

ROOT = Path(__file__).parents[2]
STANDINS = Path(__file__).parent / "standins"
SCRIPTS = [
    "run",
    "test",
    ".ci/run",
    "tools/setup.sh",
    "tools/lock",
    "machine/growd_machine/installation/get_pip.py",
    "machine/growd_machine/installation/causes.py",
    "install",
]
TIME_LIMIT = 30.0  # seconds; only a hang takes that long


class Checkout:
    """The project's real scripts in a folder with a space in its name."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "a checkout"
        self._calls = folder / "calls"
        self._check_out()
        self._calls.touch()
        for fifo in ("there", "go"):
            os.mkfifo(folder / fifo)

    def command(self, name, *arguments, **settings):
        """Run a command to its end; `settings` are environment variables of the stand-ins."""
        return subprocess.run(
            [self.root / name, *arguments],
            env=self.environment(**settings),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )

    def start(self, name, **settings):
        """Start a command in its own process group, as a shell does."""
        return Ending(
            [self.root / name],
            env=self.environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_for_pip(self):
        """Return when pip was started and waits (PIP_WAITS_AT)."""
        (self.folder / "there").read_text(encoding="utf-8")

    def release_pip(self):
        (self.folder / "go").write_text("go\n", encoding="utf-8")

    def calls(self):
        """The calls since the previous call of this method."""
        calls = self._calls.read_text(encoding="utf-8").splitlines()
        self._calls.write_text("", encoding="utf-8")
        return calls

    def environment(self, **settings):
        return {
            "PATH": f"{STANDINS}:/usr/bin:/bin",
            "CALLS": str(self._calls),
            "FIFOS": str(self.folder),
            "STANDINS": str(STANDINS),
            "CHECKOUT": str(self.root),
            "REAL_PYTHON": sys.executable,
            **settings,
        }

    def _check_out(self):
        npm = ("package.json", "package-lock.json")
        files = [Path(folder, name) for folder in ("couchdb/embedded", "page") for name in npm]
        files.append(Path("pyproject.toml"))
        locks = [lock.relative_to(ROOT) for lock in (ROOT / "requirements").glob("*.lock")]
        for file in [*map(Path, SCRIPTS), *files, *locks]:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, self.root / file)
