"""`growd check --pi`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from growd_cli.main import main
from support.pi_tree import PiTree


@pytest.fixture
def tree(tmp_path):
    return PiTree(tmp_path)


def check(tree, *arguments):
    return CliRunner().invoke(main, ["check", "--pi", "--root", str(tree.root), *arguments])


def test_each_finding_has_a_line_and_its_remedy(tree):
    tree.remove("dev/i2c-1")
    result = check(tree, "--profile", "food-computer")
    assert result.exit_code == 1
    assert "ok          model: Raspberry Pi 4 Model B Rev 1.4, revision b03114\n" in result.stdout
    remedy = f"sudo growd setup-pi --root {tree.root} --profile food-computer --write, then sudo reboot"
    lines = ["failure     I2C bus 1: there is no /dev/i2c-1", f"              -> {remedy}"]
    assert "\n".join(lines) in result.stdout


def test_json_has_the_findings_and_remedies_repeat_the_options(tree):
    tree.remove("dev/i2c-1")
    tree.write("a name.toml", "[simulator]\nenabled = false\n[[sensor]]\nname='a'\nkind='scd30'\n")
    tree.write("boot/firmware/config.txt", "")
    result = check(tree, "--json", "--config", f"{tree.root}/a name.toml", "--set", "light.enabled=true")
    document = json.loads(result.stdout)
    assert (document["model"], document["is_supported"]) == ("Raspberry Pi 4 Model B Rev 1.4", True)
    found = {finding["subject"]: finding for finding in document["findings"]}
    assert found["I2C bus 1"]["state"] == "failure"
    assert found["model"]["state"] == "ok"
    options = f"--config '{tree.root}/a name.toml' --set light.enabled=true"
    remedy = f"sudo growd setup-pi --root {tree.root} {options} --write, then sudo reboot"
    assert found["I2C bus 1"]["remedy"] == found["boot settings"]["remedy"] == remedy


def test_the_installed_configuration_is_the_default(tree):
    assert "There is no configuration, so buses and pins are not checked" in check(tree).stdout
    tree.write("etc/growd/growd.toml", "[simulator]\nenabled = false\n[[sensor]]\nname='a'\nkind='scd30'\n")
    assert "I2C bus 1: 50 kHz" in check(tree).stdout


def test_another_machine_gets_one_sentence_and_what_applies(tree):
    tree.remove("proc/device-tree/model")
    result = check(tree)
    assert result.stdout.startswith("This machine is not a Raspberry Pi 3, 4, 5 or Zero 2; ")
    assert "memory limits" in result.stdout


def test_an_invalid_configuration_gets_its_fault(tree):
    tree.write("growd.toml", "[output]\n")
    result = check(tree, "--config", str(tree.root / "growd.toml"))
    assert result.exit_code == 1
    assert result.stderr.startswith("growd: ")
    assert "Traceback" not in result.stderr


def test_a_relative_data_folder_is_one_of_this_folder(tree):
    result = check(tree, "--data", "data")
    assert (
        f"data folder: {Path('data').absolute()} does not exist yet, and will be on a disk" in result.stdout
    )


def test_options_that_do_not_fit_are_refused(tree):
    assert "--pi, --hardware and --outputs are separate checks" in check(tree, "--hardware").stderr
    result = CliRunner().invoke(main, ["check", "--json"])
    assert (result.exit_code, "--json is for --pi" in result.stderr) == (2, True)
