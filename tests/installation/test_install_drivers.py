"""`growd install --with`: packages with drivers, over upgrades, without a network, and their removal."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from growd_cli.main import main
from growd_machine.installation.__main__ import _parser
from growd_machine.installation.drivers import driver_steps, installed_packages
from growd_machine.installation.health import GrowdHealth, StatusAnswer, _Device
from growd_machine.installation.machine import InstallError, Machine, ProgramError, run_program
from growd_machine.installation.options import InstallChoices
from growd_machine.installation.sources import source_at
from growd_machine.installation.targets import target_of
from growd_machine.installation.tree import launcher_text
from support.fresh_machine import CHECKOUT, Fresh, wheel
from support.own_packages import EXAMPLE, wheel_of


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return wheel_of(EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
def machine(tmp_path):
    """A machine whose pip has no index."""
    root = tmp_path / "root"
    root.mkdir()

    def run(command):
        if "download" in command:
            raise ProgramError(command, "the name resolution failed")
        run_program(command)

    return Machine(root, run)


def install(machine, **choices):
    """The steps that were done, in words."""
    done = []
    for step in driver_steps(
        machine, source_at(CHECKOUT), target_of(machine.root), InstallChoices(**choices)
    ):
        if not step.is_done():
            step.do()
            done.append(step.words)
    return done


def library(machine):
    folder = machine.root / "opt/growd/drivers/lib"
    return {path.name for path in folder.iterdir()} - {"__pycache__"}


def test_a_wheel_is_installed_beside_the_versions_and_removed(machine, example, said):
    assert len(install(machine, with_packages=[str(example)])) == 3
    assert library(machine) == {"sht31_example.py", "sht31_example_chip.py", "growd_sht31-1.0.0.dist-info"}
    assert [str(each) for each in installed_packages(machine)] == ["growd_sht31==1.0.0"]
    assert install(machine) == ["remove drivers of earlier installations"]

    before = machine.at(Path("opt/growd/drivers")).readlink()
    with said.raises(InstallError):
        install(machine, with_packages=["growd-missing==1.0"])
    assert machine.at(Path("opt/growd/drivers")).readlink() == before
    assert not list((machine.root / "opt/growd").glob("*.part"))

    install(machine, without_packages=["Growd.SHT31"])
    assert library(machine) == set()
    assert installed_packages(machine) == []
    assert len(list((machine.root / "opt/growd").glob("drivers-*"))) == 1
    with said.raises(InstallError):
        install(machine, without_packages=["growd-sht31"])


@pytest.mark.long
def test_a_package_stays_without_a_network_and_without_its_wheel_file(machine, example, tmp_path):
    own = tmp_path / example.name
    shutil.copy(example, own)
    install(machine, with_packages=[str(own)])
    own.unlink()
    (folder,) = (machine.root / "opt/growd").glob("drivers-*")
    (folder / "version.json").unlink()  # as if it was never complete, as after another Python
    machine.at(Path("opt/growd/drivers/version.json")).write_text(
        json.dumps({"packages": [["growd-sht31", "1.0.0", ""]]})
    )
    assert any("install the drivers" in words for words in install(machine))
    assert "sht31_example.py" in library(machine)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (
            r"--with must be PACKAGE==VERSION or a wheel file, got",
            ["growd-sht31", "growd-sht31>=1", "../growd-sht31", "-r x==1", "a.whl"],
        ),
        (
            r"is no package with drivers; growd brings its own",
            ["growd==9.9", "Growd==9.9", "growd-9.9-py3-none-any.whl", "pip==1.0"],
        ),
    ],
    ids=["other forms", "growd itself"],
)
def test_what_is_no_package_with_drivers_is_refused(machine, words, given):
    for each in given:
        with pytest.raises(InstallError, match=words):
            install(machine, with_packages=[each])


def test_a_package_of_the_index_is_fetched_with_growds_versions_of_what_both_need(tmp_path, example):
    commands = []

    def run(command):
        commands.append(command)
        if "download" in command:
            shutil.copy(example, command[command.index("--dest") + 1])
            constraints = Path(command[command.index("--constraint") + 1]).read_text()
            assert "smbus2==" in constraints
            assert "hash" not in constraints
        else:
            run_program(command)

    (tmp_path / "root").mkdir()
    install(Machine(tmp_path / "root", run), with_packages=["growd-sht31==1.0.0"])
    assert ["download" in command for command in commands if "pip" in command] == [False, True, False]
    assert all("--only-binary=:all:" in command for command in commands if "pip" in command)


def test_drivers_outlast_an_upgrade_of_growd(tmp_path, example):
    (tmp_path / "root").mkdir()
    fresh = Fresh(tmp_path / "root")
    run = fresh.run

    def with_real_drivers(command):
        (run_program if "--find-links" in command else run)(command)

    fresh.machine = Machine(fresh.root, with_real_drivers, lambda _: "")
    fresh.install(wheel(tmp_path, "1.2.0"), with_packages=[str(example)])
    before = (fresh.home / "drivers").readlink()
    fresh.install(wheel(tmp_path, "1.3.0"))
    assert fresh.versions() == ["1.2.0", "1.3.0"]
    assert (fresh.home / "drivers").readlink() == before
    assert (fresh.home / "drivers/lib/sht31_example.py").exists()
    fresh.uninstall()
    assert not fresh.home.exists()


def test_the_launcher_puts_drivers_behind_the_packages_of_growd(tmp_path):
    text = launcher_text("1.0", (f"{sys.version_info.major}.{sys.version_info.minor}",), sys.executable)
    program = tmp_path / "bin/growd"
    program.parent.mkdir()
    (tmp_path / "lib/growd_cli").mkdir(parents=True)
    (tmp_path / "lib/growd_cli/__init__.py").write_text("")
    (tmp_path / "lib/growd_cli/__main__.py").write_text("import sys\ndef main(): print(sys.path)\n")
    program.write_text(text)
    done = subprocess.run([sys.executable, "-I", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"['{tmp_path}/lib', ")
    assert done.stdout.rstrip().endswith("'/opt/growd/drivers/lib']")


def test_a_driver_that_does_not_fit_does_not_stop_an_upgrade():
    message = "the driver sht31 of growd-sht31 1.0 can't be loaded: its import failed: ImportError"
    devices = [_Device("air", "failed", message), _Device("light", "failed", "does not answer")]
    health = GrowdHealth.of(StatusAnswer(devices=devices))
    assert list(health.worse_than(GrowdHealth())) == ["light has failed: does not answer"]


def test_the_options_are_repeatable_in_both_command_lines(tmp_path, example):
    words = ["--with", "a==1", "--with", "b==2", "--without", "c"]
    choices = InstallChoices(**vars(_parser().parse_args(words)))
    assert choices.arguments()[: len(words)] == words
    (tmp_path / "root").mkdir()
    options = [
        "install",
        "--root",
        str(tmp_path / "root"),
        "--dry-run",
        "--with",
        str(example),
        str(CHECKOUT),
    ]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    assert "would install the drivers growd_sht31==1.0.0 in" in result.output
