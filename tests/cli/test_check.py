"""`growd check`: the message and the advice for each problem."""

import asyncio
import errno
import functools
import re
import threading

import pytest

from growd.config import ChamberOptions, ChannelOptions, Config, Light, Output, Sensor
from growd.device_kinds import SENSOR_KINDS
from growd_cli.hardware_check import LIMIT_S, DeviceAnswer, check_hardware
from growd_drivers.hardware import Hardware
from growd_drivers.serial_line import open_port
from growd_hwsim.faults import Fault
from growd_hwsim.gpio import SimulatedPins
from growd_hwsim.hardware import WiredChip, WiredRelay, Wiring
from support.clock import ManualClock
from support.lasting_pins import LastingPins
from support.machine import SleepingTime, simulated
from support.mount_namespace import mounted
from support.program import GROWD
from support.program import said as growd

SCD30 = Sensor(name="air", kind="scd30")
BH1750 = Sensor(name="lux", kind="bh1750")
TSL2591 = Sensor(name="sun", kind="tsl2591")
MHZ19 = Sensor(name="co2", kind="mhz19", port="/dev/serial0")
BRIDGED = Sensor(name="co2", kind="mhz16", address=0x4D)
DARK = Light(enabled=False)
WHITE = Light(channel=(ChannelOptions(name="white", pin=12),))
NO_I2C = Wiring(i2c=())


def sensing(*sensors):
    return Config(sensor=sensors, light=DARK)


async def findings(config, hardware):
    reported = []
    found = await check_hardware(config, hardware, ManualClock(), reported.append)
    await asyncio.to_thread(hardware.close)
    assert reported == found
    return {finding.device: finding for finding in found}


async def finding(sensor, hardware):
    return (await findings(sensing(sensor), hardware))[sensor.name]


def machine(*faults, wiring=None):
    return simulated(SleepingTime(), daylight_lux=1_000, faults=faults, wiring=wiring)


async def test_answering_devices_show_their_readings():
    found = await findings(sensing(SCD30, BH1750), machine())
    assert all(one.answers for one in found.values())
    reading = r"SCD30 at 0x61 on I2C bus 1 answers: \d+ ppm, [\d.]+ degC, [\d.]+ percent"
    assert re.fullmatch(reading, found["air"].sentence)
    assert re.fullmatch(r"BH1750 at 0x23 on I2C bus 1 answers: [\d.]+ lux", found["lux"].sentence)


@pytest.mark.parametrize("inverted", [False, True])
async def test_outputs_are_claimed_and_released_at_their_safe_level(inverted):
    light = Light(
        channel=(ChannelOptions(name="white", pin=12), ChannelOptions(name="red", pin=13)), inverted=inverted
    )
    valve = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on", active="low")
    wiring = Wiring(
        i2c=(),
        lamp_pins={"white": 12, "red": 13},
        inverted_lamps=inverted,
        relays={23: WiredRelay("valve", active_high=False)},
    )
    hardware = simulated(SleepingTime(), wiring=wiring)
    found = await findings(Config(sensor=(), light=light, output=(valve,)), hardware)
    assert found["light"] == DeviceAnswer(
        "light", True, "lamp on GPIO 12 (white), GPIO 13 (red) can be driven, and stays dark"
    )
    assert found["valve"] == DeviceAnswer("valve", True, "relay on GPIO 23 can be driven, and stays off")
    levels = {(event.pin, event.high) for event in hardware.pins.history}
    assert levels == {(12, float(inverted)), (13, float(inverted)), (23, 1.0)}


async def test_a_lamp_on_the_pwm_chip_is_claimed_there_or_the_chip_is_missing(said):
    config = Config(sensor=(), light=Light(channel=WHITE.channel, kind="hardware_pwm", inverted=True))
    wiring = Wiring(i2c=(), lamp_pins={"white": 12}, inverted_lamps=True, pwm_chips={0: 2})
    hardware = simulated(SleepingTime(), wiring=wiring)
    assert (await findings(config, hardware))["light"].answers
    assert hardware.pwm_files.high(12) == 1
    assert not hardware.pins.history
    missing = (await findings(config, machine(wiring=NO_I2C)))["light"]
    assert not missing.answers
    said(missing.sentence)


def wired(*chips, bus=1, hz=None):
    return Wiring(i2c=tuple(WiredChip(kind, bus, address) for kind, address in chips), bus_hz={bus: hz})


ON_SERIAL = Wiring(i2c=(), serial={"/dev/serial0": "mhz19"})


async def test_a_sensor_that_does_not_answer_gets_advice(said):
    """What may be wrong, also judged by what else answers on its bus."""
    both, swapped = (SCD30, BH1750), Fault("wrong_order", "scd30")
    for sensors, fault, wiring in (
        (both, Fault("absent", "scd30"), None),
        (both, Fault("nak", "scd30"), None),
        (both, Fault("timeout", "scd30"), None),
        (both, Fault("bus_error", "scd30"), None),
        (both, Fault("bad_crc", "scd30"), None),
        (both, Fault("absent", "i2c-1"), None),
        ((SCD30,), swapped, Wiring(bus_hz={1: 100_000})),
        ((SCD30,), swapped, Wiring(bus_hz={1: None})),
        ((SCD30,), None, wired(("scd30", 0x60))),
        ((BH1750,), None, wired(("bh1750", 0x5C))),
        ((SCD30,), None, wired(("bh1750", 0x23), ("scd30", 0x60))),
        ((TSL2591,), None, wired(("bh1750", 0x29))),
        ((BRIDGED, BH1750), None, wired(("bh1750", 0x23))),
        *(((MHZ19,), Fault(kind, "mhz19"), ON_SERIAL) for kind in ("absent", "garbled", "unplugged")),
    ):
        faults = () if fault is None else (fault,)
        found = await findings(sensing(*sensors), machine(*faults, wiring=wiring))
        assert not found[sensors[0].name].answers
        said(found[sensors[0].name].sentence)


async def test_a_sensor_that_answers_shows_what_it_says(said):
    """A bus that is too fast for it gets advice; the value that a chip measures is not compared."""
    slow = Sensor(name="air", kind="scd30", interval_s=600.0)
    on_bus_3 = Sensor(name="air", kind="scd30", bus=3)
    for sensor, fault, wiring in (
        (SCD30, None, Wiring(bus_hz={1: 50_000})),
        (SCD30, None, Wiring(bus_hz={1: 100_000})),
        (SCD30, None, Wiring(bus_hz={1: None})),
        (on_bus_3, None, wired(("scd30", 0x61), bus=3, hz=100_000)),
        (slow, None, None),
        (BH1750, Fault("saturated", "bh1750"), None),
        (MHZ19, None, ON_SERIAL),
        (BRIDGED, None, wired(("mhz16", 0x4D))),
    ):
        found = await finding(sensor, machine(*(() if fault is None else (fault,)), wiring=wiring))
        assert found.answers
        said(re.sub(r"answers: [^;]*", "answers: VALUES", found.sentence))


@pytest.mark.parametrize(
    "fault",
    [Fault("bus_error", "bh1750", duration=0.1), Fault("stuck", "i2c-1")],
    ids=lambda fault: fault.kind,
)
async def test_one_failed_transfer_is_forgiven(fault):
    assert (await finding(BH1750, machine(fault))).answers


@pytest.mark.parametrize(
    ("kind", "words"),
    [("scd4x", " ppm, "), ("sht3x", " percent"), ("bme280", " hPa"), ("as7341", " umol/m2/s")],
)
async def test_each_sensor_shows_its_first_reading(kind, words):
    address = SENSOR_KINDS[kind].addresses[0]
    found = await finding(Sensor(name="it", kind=kind), machine(wiring=wired((kind, address))))
    assert found.answers
    assert f"{SENSOR_KINDS[kind].part} at {address:#04x} on I2C bus 1 answers: " in found.sentence
    assert words in found.sentence


def refusing(error):
    """A machine whose buses and ports fail to open with an error of the kernel."""

    def refuse(*_):
        raise error

    time = SleepingTime()
    pins = SimulatedPins(time.monotonic)
    return Hardware(refuse, refuse, pins, sleep=time.sleep, monotonic=time.monotonic)


async def test_a_bus_or_port_that_can_not_be_opened_gets_advice(tmp_path, said):
    for sensor, number in (
        (BH1750, errno.EACCES),
        (BH1750, errno.ENOENT),
        (Sensor(name="lux", kind="bh1750", bus=3), errno.ENOENT),
        (MHZ19, errno.EACCES),
        (MHZ19, errno.EBUSY),
        (MHZ19, errno.ENOENT),
    ):
        found = await finding(sensor, refusing(OSError(number, "refused")))
        assert not found.answers
        said(found.sentence)
    (tmp_path / "active").write_text("tty1 ttyS9\n")
    hardware = refusing(AssertionError)
    hardware._open_serial = functools.partial(open_port, consoles=tmp_path / "active")
    console = await finding(Sensor(name="co2", kind="mhz19", port="/dev/ttyS9"), hardware)
    assert not console.answers
    said(console.sentence)


async def test_a_hanging_sensor_does_not_block_the_next():
    clock, hardware = ManualClock(), machine(Fault("hang", "bh1750"))
    found = []
    checking = check_hardware(sensing(BH1750, SCD30), hardware, clock, found.append)
    check = asyncio.create_task(checking, name="check")
    await clock.until(lambda: hardware.faults.hanging == 1)
    await clock.advance(LIMIT_S)
    await check
    assert [(one.device, one.answers) for one in found] == [("lux", False), ("air", True)]
    words = "BH1750 at 0x23 on I2C bus 1 hangs: no answer within 15 s; switch"
    assert found[0].sentence.startswith(words)
    await asyncio.to_thread(hardware.close)
    await clock.until(lambda: not any(thread.name == "i2c-1" for thread in threading.enumerate()))


async def test_a_message_without_the_key_is_not_the_answer_of_a_sender():
    sensor = Sensor(name="air", kind="mqtt", topic="z/air", key="temperature", variable="air_temperature")
    hardware = machine(wiring=NO_I2C)
    check = asyncio.create_task(findings(sensing(sensor), hardware), name="check")
    while not check.done():  # it listens at one of these turns
        hardware.mqtt.publish("z/air", b'{"battery": 91}')
        hardware.mqtt.publish("z/air", b'{"temperature": 21.5}')
        await asyncio.sleep(0)
    found = (await check)["air"]
    assert found.answers
    assert found.sentence.endswith(" sends: 21.5")


@pytest.mark.parametrize("fault", ["refused", "hang"])
async def test_a_pin_that_fails_is_reported_and_the_others_are_driven(fault, said):
    fan = Output(name="fan", pin=24, variable="air_flush_on")
    config = Config(sensor=(), light=WHITE, output=(fan,))
    found = await findings(config, machine(Fault(fault, "gpio-12"), wiring=NO_I2C))
    assert [found[name].answers for name in ("light", "fan")] == [False, True]
    said(found["light"].sentence)


ENABLED = "[simulator]\nenabled = true\n"
VALVE = """
[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
"""
WIRED = """
[simulator]
enabled = false
[[sensor]]
name = "co2"
kind = "mhz19"
port = "/dev/serial0"
[[output]]
name = "fan"
pin = 24
variable = "air_flush_on"
active = "low"
[[light.channel]]
name = "white"
pin = 12
"""


def checked(folder, text):
    """The exit status and the output of `growd check` with a file of this content."""
    (folder / "growd.toml").write_text(text)
    return growd("check", "--config", str(folder / "growd.toml"))


def test_a_profile_beside_a_file_is_refused_but_not_that_of_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "growd.toml"
    file.write_text(ENABLED)
    assert growd("check", "--config", str(file), "--profile", "minimal")[0] == 2
    monkeypatch.setenv("GROWD_PROFILE", "minimal")
    assert growd("check", "--config", str(file))[0] == 0


def test_a_valid_configuration_lists_its_devices(tmp_path, said):
    for text in (f"{ENABLED}[light]\n[chamber.shelf_2]\n", WIRED):
        status, printed = checked(tmp_path, text)
        assert status == 0
        said(printed.splitlines())


@pytest.mark.parametrize(
    ("file", "count"),
    [
        pytest.param("[http]\nport = 7000\n", 1, id="simulator not named"),
        pytest.param(ENABLED, 0, id="simulator"),
        pytest.param(f"{ENABLED}{VALVE}", 0, id="valve"),
        pytest.param(f'{ENABLED}{VALVE}needs = ""', 1, id="valve without need"),
        pytest.param(f'{ENABLED}{VALVE}needs = "air_humidity"', 1, id="valve with another need"),
        pytest.param(
            f'{ENABLED}[[sensor]]\nname = "lux"\nkind = "bh1750"\n{VALVE}needs = ""', 1, id="no ceiling"
        ),
        pytest.param(
            f"{ENABLED}{VALVE}[interlock]\nceiling_ppm = 30000\ndose_s = 3600\nvalve_open_s = 86400\n"
            'light_off_degc = 85\n[[light.channel]]\nname = "white"\npin = 12\n',
            4,
            id="limits",
        ),
        pytest.param(
            f'{ENABLED}[[sensor]]\nname = "air"\nkind = "scd30"\nself_calibration = true{VALVE}',
            1,
            id="self-calibration",
        ),
    ],
)
def test_a_doubtful_configuration_gets_warnings_with_their_lines(tmp_path, file, count, said):
    status, printed = checked(tmp_path, file)
    found = [line for line in printed.splitlines() if line.startswith("warning: ")]
    assert (status, len(found)) == (0, count), printed
    said(found)
    assert ("warning" in printed.splitlines()[-1]) == bool(count)


SHELVES = """
[simulator]

[[sensor]]
name = "air"
kind = "scd30"

[light]
enabled = false

[[chamber.shelf_2.sensor]]
name = "air"
kind = "scd30"
bus = 3

[[chamber.shelf_2.light.channel]]
name = "white"
pin = 20

[[chamber.shelf_2.output]]
name = "fan"
pin = 24
variable = "air_flush_on"
"""


def test_devices_of_several_environments_are_listed(tmp_path):
    status, printed = checked(tmp_path, SHELVES)
    assert (status, [line.partition(":")[0] for line in printed.splitlines()][:-1]) == (
        0,
        ["environment_1/air", "shelf_2/air", "shelf_2/light", "shelf_2/fan"],
    )
    faults = tmp_path / "faults.toml"
    faults.write_text(
        '[[fault]]\ndevice = "i2c-3:0x61"\nkind = "absent"\n[[fault]]\ndevice = "gpio-20"\nkind = "refused"\n'
    )
    config = str(tmp_path / "growd.toml")
    status, printed = growd("check", "--hardware", "--config", config, "--faults", str(faults))
    lines = printed.splitlines()
    assert (status, lines[-1]) == (1, "2 of 4 devices answer (simulated hardware).")
    assert lines[0].startswith("environment_1/air: SCD30 at 0x61 on I2C bus 1 answers: ")
    assert lines[1].startswith("shelf_2/air: SCD30 at 0x61 on I2C bus 3 does not answer")
    assert lines[2].startswith("shelf_2/light: GPIO 20 can't be driven: ")
    assert lines[3] == "shelf_2/fan: relay on GPIO 24 can be driven, and stays off"


async def test_a_neighbour_on_the_bus_may_be_of_another_environment():
    others = {"shelf_2": ChamberOptions(sensor=(BH1750,))}
    config = Config(sensor=(SCD30,), light=DARK, chamber=others)
    found = await findings(config, machine(Fault("absent", "scd30")))
    assert found["environment_1/air"].sentence.endswith("; shelf_2/lux on the same bus can be reached")
    assert found["shelf_2/lux"].answers


def test_errors_that_prevent_a_check_are_one_sentence(tmp_path, said):
    real = ("--hardware", "--set", "simulator.enabled=false", "--set", "http.port=0")
    with LastingPins(tmp_path).here(chips={0: "INT34C5:00"}):  # not those of a Raspberry Pi
        for arguments in (("--set", "http.prot=1"), ("--hardware", "--faults", "/nowhere/faults.toml"), real):
            status, printed = growd("check", *arguments)
            assert status == 1
            said(printed.splitlines())


UNASKED = f"""
{ENABLED}
[[sensor]]
name = "by_hand"
kind = "topic"
variable = "water_level"

[[output]]
name = "pump"
kind = "mqtt"
variable = "air_circulation"
topic = "home/pump/set"

[[output]]
name = "other"
kind = "topic"
variable = "auxiliary_1"

[[output]]
name = "fan"
pin = 20
variable = "air_flush_on"
"""


def test_what_cannot_be_asked_does_not_count_as_answering(tmp_path, said):
    (tmp_path / "growd.toml").write_text(UNASKED)
    status, printed = growd("check", "--hardware", "--config", str(tmp_path / "growd.toml"))
    assert (status, len(printed.splitlines())) == (0, 6), printed
    said(printed.splitlines())


def test_without_a_configuration_the_simulated_hardware_is_named_first_and_answers():
    status, printed = growd("check", "--hardware", "--set", "light.enabled=true")
    assert status == 0, printed
    lines = printed.splitlines()
    assert lines[0] == "warning: there is no configuration, so the hardware is simulated; add --config FILE"
    assert lines[-1] == "3 of 3 devices answer (simulated hardware)."


def test_the_installed_configuration_is_the_default(tmp_path):
    (tmp_path / "growd.toml").write_text(
        "[simulator]\nenabled = true\n[[sensor]]\nname = 'mine'\nkind = 'bh1750'\n"
    )
    script = """
set -e
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
mkdir -p /etc/growd
cp "$1" /etc/growd/growd.toml
"$2" check
echo ---
"$2" check --hardware
echo ---
"$2" check --profile food-computer
"""
    printed = mounted(script, str(tmp_path / "growd.toml"), str(GROWD))
    plain, tested, given = printed.split("---\n")
    assert plain.startswith("configuration: /etc/growd/growd.toml\nmine: BH1750 at 0x23")
    assert "mine: BH1750 at 0x23 on I2C bus 1 answers" in tested
    assert given.startswith("scd30_1: SCD30")


async def test_hardware_of_a_running_growd_is_not_touched(daemon):
    settings = ("--set", f"http.port={daemon.port}", "--set", "simulator.enabled=false")
    status, printed = await asyncio.to_thread(growd, "check", "--hardware", *settings)
    assert status == 1
    assert printed.startswith(f"growd: growd is running at {daemon.origin}/_svc and owns the hardware")
