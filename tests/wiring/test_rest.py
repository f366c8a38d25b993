"""Outputs are safe before and after everything else: real drivers on pins that outlive growd."""

import os
import socket
import sqlite3
from contextlib import closing, contextmanager

import msgspec
import pytest

from growd.config import ChamberOptions, ChannelOptions, Config, Light, Output, Simulator, load
from growd.config.profiles import profile_path
from growd.config.services import Gpio
from growd.host.data_folder import own_folder
from growd.store.local import SCHEMA_VERSION
from growd.wiring import rest
from growd.wiring.rest import keep_run, make_safe, safe_pins
from growd_cli.run import _make_safe
from growd_drivers.last_run import FILE_NAMES, SafePin, last_run
from growd_drivers.pins import Pins
from growd_hwsim.hardware import Wiring
from support.full_disk import full_disk
from support.lasting_pins import LastingPins
from support.machine import SleepingTime, simulated
from support.program import said

FOOD_COMPUTER = str(profile_path("food-computer"))
SAFE = {12: 0, 13: 0, 18: 0, 23: 1, 24: 1}  # both relays of the profile switch on at a low pin
OPEN = {12: 1, 13: 1, 18: 1, 23: 0, 24: 0}


@pytest.fixture
def pins(tmp_path):
    """The pins as a killed growd leaves them: everything is on."""
    pins = LastingPins(tmp_path)
    pins.left(OPEN)
    return pins


@pytest.fixture
def data(tmp_path):
    """The data folder of a growd that had the outputs of the profile."""
    folder = tmp_path / "data"
    folder.mkdir()
    keep_run(folder, load(profile_path("food-computer")), SAFE)
    return folder


def outputs_of(data):
    return last_run(data)[0].outputs


# what a start may find in its way


@contextmanager
def no_room(_data):
    with full_disk(largest=4_000), pytest.MonkeyPatch.context() as patch:  # the file of the pins is smaller
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # of the pin keeper, which would write half of it
        yield ()


@contextmanager
def taken_port(_data):
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield (f"--set=http.port={server.getsockname()[1]}",)


@contextmanager
def locked_folder(data):
    with own_folder(data):
        yield ()


@contextmanager
def newer_data(data):
    with closing(sqlite3.connect(data / "growd.sqlite3")) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    yield ()


@contextmanager
def read_only_folder(_data):
    yield ("--data=/proc/growd",)  # which not even root can make


@contextmanager
def damaged_record(data):
    content = (data / FILE_NAMES[0]).read_bytes()
    (data / FILE_NAMES[0]).write_bytes(content.replace(b"valve", b"va\xecve"))
    yield ("--set=http.port=0", "--set=http.host=0.0.0.0")


@contextmanager
def pipe_in_place_of_a_file(data):
    os.mkfifo(data / "pipe")
    yield ("--config", str(data / "pipe"))


def file_with(text):
    @contextmanager
    def obstacle(data):
        (data / "other.toml").write_text(text)
        yield ("--config", str(data / "other.toml"))

    return obstacle


def setting(*settings):
    @contextmanager
    def obstacle(_data):
        yield tuple(f"--set={setting}" for setting in settings)

    return obstacle


PROFILE = profile_path("food-computer").read_text()
CHANNEL = "[[notify]]\nname = 'hook'\nkind = 'apprise'\nurl_file = '/nowhere'\n"
TOKEN = f"couchdb.credentials_file = '{'x' * 300}'\n"
OBSTACLES = {
    "disk full": (no_room, "growd.sqlite3"),
    "TLS file missing": (setting("tls.certificate=/nowhere", "tls.key=/nowhere"), "nowhere"),
    "port taken": (taken_port, "in use"),
    "TOML broken": (file_with("[[output]\n"), "is not TOML"),
    "output half written": (file_with(f"{PROFILE}\n[[output]]\nname = 'pump'\n"), "drives: is missing"),
    "folder locked": (locked_folder, "in use by another growd"),
    "folder read-only": (read_only_folder, "can't be written to"),
    "credentials missing": (setting("couchdb.credentials_file=/nowhere"), "nowhere"),
    "pin is a list": (file_with(PROFILE.replace("pin = 23", "pin = [23]")), "pin: must be a whole number"),
    "token in place of a file": (file_with(TOKEN + PROFILE), "File name too long"),
    "record of the outputs damaged": (damaged_record, "access"),
    "pipe in place of a file": (pipe_in_place_of_a_file, "is not a regular file"),
    "secret of a channel missing": (file_with(f"{PROFILE}\n{CHANNEL}"), "nowhere"),
    "data of a newer growd": (newer_data, "newer growd"),
    "host without access": (setting("http.host=0.0.0.0"), "access"),
    "unknown time zone": (setting("environment.time_zone=Nowhere/Nowhere"), "time_zone"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OBSTACLES)
def test_a_start_that_fails_leaves_the_outputs_safe_and_growd_safe_makes_them_so(name, pins, data):
    obstacle, words = OBSTACLES[name]
    common = ("--data", str(data), "--config", FOOD_COMPUTER, "--set=couchdb.url=http://127.0.0.1:1")
    with obstacle(data) as arguments:
        with pins.here():
            status, printed = said("run", *common, *arguments)
        assert status == 1
        assert words in printed
        assert pins.levels() == SAFE
        pins.left(OPEN)
        with pins.here():
            status, printed = said("safe", *common, *arguments)
    assert pins.levels() == SAFE
    assert "valve: GPIO 23 is high, its safe level" in printed
    assert (status, "stop it" in printed) == ((1, True) if name == "folder locked" else (0, False)), printed


# what is known of the outputs


def test_pins_of_every_output_are_known():
    shelf = ChamberOptions(
        light=Light(channel=(ChannelOptions(name="white", pin=20),), inverted=True, kind="hardware_pwm"),
        output=(Output(name="fan", pin=21, variable="air_flush_on", active="low", safe="on"),),
    )
    valve = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")
    config = Config(simulator=REAL, gpio=Gpio(pwm_chip=2), output=(valve,), chamber={"shelf_2": shelf})
    assert safe_pins(config) == [
        SafePin("environment_1/valve", 23, 0),
        SafePin("shelf_2/fan", 21, 0),
        SafePin("shelf_2/light white", 20, 1, 2),
    ]
    assert safe_pins(Config(output=(valve,))) == []  # simulated


REAL = Simulator(enabled=False)
FAN = Output(name="fan", pin=24, variable="air_flush_on")


@pytest.mark.parametrize("name", FILE_NAMES)
def test_the_outputs_are_saved_only_when_they_change_and_were_driven(name, data, tmp_path):
    file = data / name
    before = file.stat()
    keep_run(data, load(profile_path("food-computer")), SAFE)
    assert file.stat().st_ino == before.st_ino
    keep_run(data, Config(simulator=REAL, output=(FAN,)), {24})
    assert file.stat().st_ino != before.st_ino
    assert outputs_of(data) == [SafePin("fan", 24, 0)]
    other = tmp_path / "other"
    other.mkdir()
    keep_run(other, load(profile_path("food-computer")), ())
    assert [*other.iterdir()] == []
    keep_run(other, load(profile_path("food-computer")), {24})
    assert [pin.pin for pin in outputs_of(other)] == [24]


@pytest.mark.parametrize("damage", [None, b"damaged"])
@pytest.mark.parametrize("lost", FILE_NAMES)
def test_one_of_the_two_files_is_enough_and_is_made_whole_again(lost, damage, data):
    before, content = outputs_of(data), (data / lost).read_bytes()
    (data / lost).unlink()
    if damage is not None:
        (data / lost).write_bytes(damage)
    assert outputs_of(data) == before
    keep_run(data, load(profile_path("food-computer")), SAFE)
    assert (data / lost).read_bytes() == content


def test_many_devices_in_the_network_leave_the_outputs_of_the_last_run_readable(tmp_path):
    plugs = tuple(
        Output(name=f"plug_{each}", kind="http", url=f"http://192.168.1.{each}", drives=("air_temperature",))
        for each in range(100)
    )
    many = Config(simulator=REAL, output=(FAN, *plugs))
    keep_run(tmp_path, many, {24})
    (run, _), before = last_run(tmp_path), (tmp_path / FILE_NAMES[0]).stat()
    assert [pin.device for pin in run.outputs] == ["fan"]
    assert [msgspec.convert(each, Output) for each in run.network.values()] == [*plugs]
    keep_run(tmp_path, many, {24})
    assert (tmp_path / FILE_NAMES[0]).stat().st_ino == before.st_ino


@pytest.mark.parametrize("config", [None, Config(simulator=Simulator(enabled=False), sensor=(), output=())])
def test_a_simulated_run_keeps_real_outputs_but_not_pins_with_another_function(config, tmp_path, data):
    keep_run(tmp_path, Config(), ())
    assert not (tmp_path / FILE_NAMES[0]).exists()
    keep_run(data, Config(), ())
    pins = LastingPins(tmp_path)
    pins.left({24: 0})
    with pins.here():
        assert [pin.device for pin in make_safe(config, data).safe] == ["fan"]
    assert pins.levels() == {24: 1}
    keep_run(data, Config(simulator=REAL, output=(FAN,)), {24})
    assert not last_run(data)[0].is_simulated


@pytest.mark.parametrize("damage", [b"{", b'{"outputs": [{"device": "valve", "pin": 21, "level": 1}]}', None])
def test_an_unreadable_file_of_outputs_has_none(damage, pins, data):
    for name in FILE_NAMES:
        (data / name).unlink()
        if damage is None:
            (data / name).symlink_to("/dev/zero")
        else:
            (data / name).write_bytes(damage)
    assert outputs_of(data) == []
    with pins.here():
        status, printed = said("safe", "--data", str(data), "--config", "/nowhere")
        assert (status, "no outputs are known" in printed) == (1, True)
        assert pins.levels() == OPEN
        status, printed = said("safe", "--data", str(data), "--config", FOOD_COMPUTER)
        assert (status, "the outputs of the last run are not known" in printed) == (1, True)
        assert pins.levels() == SAFE
    keep_run(data, Config(simulator=REAL, output=(FAN,)), {24})
    assert outputs_of(data) == [SafePin("fan", 24, 0)]


def test_outputs_are_made_safe_with_a_wrong_profile_and_after_a_real_run_in_a_simulated_one(
    pins, data, tmp_path, monkeypatch
):
    with pins.here():
        told = (0, "The hardware is simulated: there are no outputs to make safe.\n")
        assert said("safe", "--data", str(tmp_path / "new"), "--profile", "sim") == told
        assert pins.levels() == OPEN
        said("run", "--data", str(data), "--set=http.host=0.0.0.0")  # simulated, and refused
        assert pins.levels() == SAFE
    pins.left(OPEN)
    monkeypatch.setenv("GROWD_PROFILE", "nonsense")
    with pins.here():
        said("safe", "--data", str(data), "--config", str(profile_path("food-computer")))
    assert pins.levels() == SAFE
    words = "Invalid value for --profile or GROWD_PROFILE: there is no profile 'nonsense'"
    assert words in said("safe", "--data", str(data))[1]


def test_an_unexpected_failure_of_a_pin_does_not_affect_others(pins, data, monkeypatch):
    claim = Pins.claim

    def failing(pins, pin, *given, **options):
        if pin == 23:
            raise TypeError("odd")
        return claim(pins, pin, *given, **options)

    monkeypatch.setattr(Pins, "claim", failing)
    with pins.here():
        outcome = make_safe(None, data)
    assert outcome.failures == ["valve: internal error at GPIO 23: TypeError('odd')"]
    assert len(outcome.safe) == len(SAFE) - 1


def test_growd_safe_fails_without_the_pins_and_a_start_reports_it(pins, data, caplog):
    with pins.here(chips={}):
        status, printed = said("safe", "--data", str(data), "--config", FOOD_COMPUTER)
        _make_safe(None, data)
    assert status == 1
    assert "not safe: this machine is not a Raspberry Pi" in printed
    assert "could not make an output of the last run safe at the start: " in caplog.text


def test_pins_of_the_pwm_chip_are_made_safe_by_it(pins, tmp_path, monkeypatch):
    machine = simulated(SleepingTime(), wiring=Wiring(lamp_pins={"white": 12}, pwm_chips={0: 2}))
    lamp = Light(
        channel=(ChannelOptions(name="white", pin=12), ChannelOptions(name="red", pin=22)),
        inverted=True,
        kind="hardware_pwm",
    )
    with pins.here():
        without = make_safe(Config(simulator=REAL, light=lamp), tmp_path)
    assert pins.levels() == OPEN | {22: 1}  # GPIO 12 is not taken away from the PWM
    assert "there is no pwmchip0" in without.failures[0]
    monkeypatch.setattr(rest, "kept_pins", lambda _library: machine.pins)
    assert make_safe(Config(simulator=REAL, light=lamp), tmp_path).failures == []
    assert (machine.pwm_files.high(12), machine.pins.high(22)) == (1, 1)
    machine.close()
