"""docs/wiring.svg and the table of wires in docs/raspberry-pi.md."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from growd.config import load
from growd.config.profiles import profile_path

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools/wiring-picture"


@pytest.fixture(scope="module")
def tool():
    loader = SourceFileLoader("wiring_picture", str(TOOL))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.modules[loader.name] = module  # dataclasses look it up
    try:
        loader.exec_module(module)
        yield module
    finally:
        sys.dont_write_bytecode = before
        del sys.modules[loader.name]


def test_picture_and_table_are_what_the_script_writes():
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_picture_is_xml_and_names_every_wire(tool):
    texts = ["".join(each.itertext()) for each in ET.fromstring(tool.picture()).iter()]  # noqa: S314  our own
    for wire in tool.WIRES:
        for _, terminal in wire.ends:
            assert f"{terminal}  (pin {wire.pin})" in texts


def test_the_wires_are_those_of_the_profile(tool):
    config = load(profile_path("food-computer"))
    names = {name: pin for pin, name in enumerate(tool.HEADER, 1)}
    outputs = {f"light {channel.name}": channel.pin for channel in config.light.channel}
    outputs |= {"CO2 valve" if relay.name == "valve" else relay.name: relay.pin for relay in config.output}
    purposes = {wire.purpose: wire.pin for wire in tool.WIRES}
    assert {name: purposes[name] for name in outputs} == {
        name: names[f"GPIO {pin}"] for name, pin in outputs.items()
    }
    assert (purposes["I2C data"], purposes["I2C clock"]) == (names["GPIO 2"], names["GPIO 3"])
    assert all(relay.active == "low" for relay in config.output)  # the resistors go to 3.3 V


def test_each_pin_has_one_wire_and_the_right_voltage(tool):
    assert len({wire.pin for wire in tool.WIRES}) == len(tool.WIRES)
    for wire in tool.WIRES:
        name = tool.HEADER[wire.pin - 1]
        terminals = {terminal for _, terminal in wire.ends}
        assert ("GND" in terminals) == (name == "ground")
        assert (terminals == {"JD-VCC"}) == (name == "5 V")
        assert bool(terminals & {"VDD", "VCC"}) == (name == "3.3 V")
