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
from support.program import GROWD, said

SCD30 = Sensor(name="air", kind="scd30")
BH1750 = Sensor(name="lux", kind="bh1750")
TSL2591 = Sensor(name="sun", kind="tsl2591")
MHZ19 = Sensor(name="co2", kind="mhz19", port="/dev/serial0")
BRIDGED = Sensor(name="co2", kind="mhz16", address=0x4D)
BAUDRATE = "dtparam=i2c_arm_baudrate=50000"
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


async def test_a_lamp_on_the_pwm_chip_is_claimed_there():
    light = Light(channel=WHITE.channel, hardware_pwm=True, inverted=True)
    wiring = Wiring(i2c=(), lamp_pins={"white": 12}, inverted_lamps=True, pwm_chips={0: 2})
    hardware = simulated(SleepingTime(), wiring=wiring)
    found = await findings(Config(sensor=(), light=light), hardware)
    assert found["light"].answers
    assert hardware.pwm_files.high(12) == 1
    assert not hardware.pins.history


async def test_a_missing_pwm_chip_is_reported():
    light = Light(channel=WHITE.channel, hardware_pwm=True)
    found = await findings(Config(sensor=(), light=light), machine(wiring=NO_I2C))
    assert not found["light"].answers
    assert "there is no pwmchip0: set dtoverlay=pwm-2chan in config.txt" in found["light"].sentence


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("absent", "scd30"), "does not answer: .*; lux on the same bus can be reached"),
        (Fault("absent", "i2c-1"), "; nothing answers on I2C bus 1: check SDA, SCL, power, pull-up"),
        (Fault("nak", "scd30"), "; its address acknowledges, but data is refused: another chip may be there"),
        (Fault("timeout", "scd30"), "held the clock for too long; .* switch the power off and on"),
        (Fault("bus_error", "scd30"), "broke off the transfer; look for loose contacts, long wires"),
        (
            Fault("bad_crc", "scd30"),
            "a wrong checksum, at 50 kHz; look for .* a missing ground; .* dtoverlay=i2c-gpio,.*bus=3",
        ),
    ],
)
async def test_a_failed_sensor_gets_advice(fault, words):
    found = await findings(sensing(SCD30, BH1750), machine(fault))
    assert not found["air"].answers
    assert re.search(f"^SCD30 at 0x61 on I2C bus 1 .*{words}", found["air"].sentence)


@pytest.mark.parametrize(
    ("hz", "words"),
    [(50_000, ""), (100_000, "; I2C bus 1 runs at 100 kHz, and an SCD30 needs at most 50 kHz: "), (None, "")],
)
async def test_a_working_sensor_on_a_bus_that_is_too_fast_gets_advice(hz, words):
    found = await finding(SCD30, machine(wiring=Wiring(bus_hz={1: hz})))
    assert found.answers
    assert words in found.sentence
    assert found.sentence.endswith(f"{BAUDRATE} into /boot/firmware/config.txt, and reboot") == bool(words)


def wired(*chips, bus=1, hz=None):
    return Wiring(i2c=tuple(WiredChip(kind, bus, address) for kind, address in chips), bus_hz={bus: hz})


ON_SERIAL = Wiring(i2c=(), serial={"/dev/serial0": "mhz19"})
SWAPPED = Fault("wrong_order", "scd30")


@pytest.mark.parametrize(
    ("sensor", "faults", "wiring", "words"),
    [
        (
            SCD30,
            [SWAPPED],
            Wiring(bus_hz={1: 100_000}),
            f"a wrong checksum, at 100 kHz; .* write {BAUDRATE} into .*, and reboot; also look for",
        ),
        (
            SCD30,
            [SWAPPED],
            Wiring(bus_hz={1: None}),
            "a wrong checksum, at unknown speed; I2C bus 1 may be too fast, and an SCD30 needs at most",
        ),
        (
            SCD30,
            [],
            wired(("scd30", 0x60)),
            "; but a chip answers at 0x60: set address = 0x60 if it is this sensor$",
        ),
        (
            BH1750,
            [],
            wired(("bh1750", 0x5C)),
            r"at 0x5c \(where a BH1750 may be\): set address = 0x5c if it is this sensor$",
        ),
        (
            SCD30,
            [],
            wired(("bh1750", 0x23), ("scd30", 0x60)),
            r"at 0x23 \(where a BH1750 may be\) and at 0x60: set address = that if it is this sensor$",
        ),
        (
            TSL2591,
            [],
            wired(("bh1750", 0x29)),
            "TSL2591 at 0x29 on I2C bus 1 is another chip.*; set kind or address to the chip that is wired$",
        ),
        (
            MHZ19,
            [Fault("absent", "mhz19")],
            ON_SERIAL,
            "does not answer: check its wiring and power; its TX goes to the port's RX",
        ),
        (
            MHZ19,
            [Fault("garbled", "mhz19")],
            ON_SERIAL,
            "^MH-Z19 on /dev/serial0 sent no whole frame, but .*; check the kind of the sensor, its ground",
        ),
        (
            MHZ19,
            [Fault("unplugged", "mhz19")],
            ON_SERIAL,
            "is not there: plug it in, or check the name of its port",
        ),
    ],
)
async def test_a_sensor_that_does_not_answer_gets_advice(sensor, faults, wiring, words):
    found = await finding(sensor, machine(*faults, wiring=wiring))
    assert not found.answers
    assert re.search(words, found.sentence)


async def test_the_advice_for_another_bus_names_its_overlay():
    wiring = wired(("scd30", 0x61), bus=3, hz=100_000)
    found = await finding(Sensor(name="air", kind="scd30", bus=3), machine(wiring=wiring))
    assert "write baudrate=50000 in its overlay into /boot/firmware/config.txt" in found.sentence


@pytest.mark.parametrize(
    "fault",
    [Fault("bus_error", "bh1750", duration=0.1), Fault("stuck", "i2c-1")],
    ids=lambda fault: fault.kind,
)
async def test_one_failed_transfer_is_forgiven(fault):
    assert (await finding(BH1750, machine(fault))).answers


async def test_a_sensor_without_a_reading_answers():
    found = await finding(BH1750, machine(Fault("saturated", "bh1750")))
    words = "BH1750 at 0x23 on I2C bus 1 answers, but is saturated: more than 121557 lux"
    assert found == DeviceAnswer("lux", True, words)


async def test_a_sensor_with_a_long_interval_answers(said):
    slow = Sensor(name="air", kind="scd30", interval_s=600.0)
    found = await finding(slow, machine())
    assert found.answers
    said(found.sentence)


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


def refusing(error=None):
    """A machine whose buses and ports fail to open with an error of the kernel."""

    def refuse(*_):
        assert error is not None
        raise error

    time = SleepingTime()
    pins = SimulatedPins(time.monotonic)
    return Hardware(refuse, refuse, pins, sleep=time.sleep, monotonic=time.monotonic)


ON_BUS_3 = Sensor(name="lux", kind="bh1750", bus=3)


@pytest.mark.parametrize(
    ("sensor", "number", "words"),
    [
        (BH1750, errno.EACCES, "to the group i2c; `sudo usermod -aG i2c USER`, then log in again"),
        (BH1750, errno.ENOENT, "I2C bus 1 is not there (no /dev/i2c-1): switch I2C on with `growd setup-pi`"),
        (ON_BUS_3, errno.ENOENT, "a bus other than 1 needs an overlay in config.txt, such as dtoverlay=i2c3"),
        (MHZ19, errno.EACCES, "to the group dialout; `sudo usermod -aG dialout USER`, then log in again"),
        (MHZ19, errno.EBUSY, "another program uses the port"),
        (MHZ19, errno.ENOENT, "is not there: plug it in, or check the name of its port; on a Raspberry Pi"),
    ],
)
async def test_a_bus_or_port_that_can_not_be_opened_gets_advice(sensor, number, words):
    found = await finding(sensor, refusing(OSError(number, "refused")))
    assert not found.answers
    assert words in found.sentence


async def test_a_serial_console_on_the_port_is_reported(tmp_path):
    (tmp_path / "active").write_text("tty1 ttyS9\n")
    hardware = refusing()
    hardware._open_serial = functools.partial(open_port, consoles=tmp_path / "active")
    sensor = Sensor(name="co2", kind="mhz19", port="/dev/ttyS9")
    found = await finding(sensor, hardware)
    assert not found.answers
    assert "serial console of the system: take it away with `growd setup-pi`" in found.sentence


async def test_a_missing_bridge_is_searched_on_its_bus(said):
    wiring = wired(("bh1750", 0x23))
    found = await findings(sensing(BRIDGED, BH1750), machine(wiring=wiring))
    assert found["lux"].answers
    said(found["co2"].sentence)


@pytest.mark.parametrize(
    ("sensor", "wiring", "name"),
    [(MHZ19, ON_SERIAL, "MH-Z19 on /dev/serial0"), (BRIDGED, wired(("mhz16", 0x4D)), "MH-Z16 on i2c-1:0x4d")],
)
async def test_a_sensor_that_warms_up_answers(sensor, wiring, name):
    found = await finding(sensor, machine(wiring=wiring))
    assert found == DeviceAnswer("co2", True, f"{name} answers, but is warming up")


async def test_a_busy_pin_is_reported_and_the_others_are_driven():
    fan = Output(name="fan", pin=24, variable="air_flush_on")
    config = Config(sensor=(), light=WHITE, output=(fan,))
    found = await findings(config, machine(Fault("refused", "gpio-12"), wiring=NO_I2C))
    assert found["light"] == DeviceAnswer(
        "light",
        False,
        "GPIO 12 can't be driven: it is in use by gpioset; stop that program, such as a running "
        "growd, or remove the line in config.txt that uses the pin",
    )
    assert found["fan"].answers


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


async def test_a_hanging_pin_does_not_block_the_next():
    fan = Output(name="fan", pin=24, variable="air_flush_on")
    config = Config(sensor=(), light=WHITE, output=(fan,))
    found = await findings(config, machine(Fault("hang", "gpio-12"), wiring=NO_I2C))
    assert [found[name].answers for name in ("light", "fan")] == [False, True]


def test_default_devices_and_an_empty_chamber(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text("[simulator]\nenabled = true\n[light]\n[chamber.shelf_2]\n")
    status, printed = said("check", "--config", str(file))
    default = " (default, since the configuration has none)"
    assert (status, printed.splitlines()[:-1]) == (
        0,
        [
            (
                f"warning: {file}:4: [chamber.shelf_2]: has no sensor, lamp or output; add one, such as "
                "[[chamber.shelf_2.sensor]]"
            ),
            (
                "environment_1/scd30_1: SCD30 at 0x61 on I2C bus 1: air_carbon_dioxide, air_temperature, "
                f"air_humidity{default}"
            ),
            f"environment_1/bh1750_1: BH1750 at 0x23 on I2C bus 1: light_illuminance{default}",
            (
                "environment_1/light: lamp on GPIO 12 (white), GPIO 13 (red), GPIO 18 (blue): "
                f"light_intensity_white, light_intensity_red, light_intensity_blue{default}"
            ),
        ],
    )


def test_a_valid_configuration_lists_its_devices(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(
        '[[sensor]]\nname = "co2"\nkind = "mhz19"\nport = "/dev/serial0"\n'
        '[[output]]\nname = "fan"\npin = 24\nvariable = "air_flush_on"\nactive = "low"\n'
        '[[light.channel]]\nname = "white"\npin = 12\n'
    )
    status, printed = said("check", "--config", str(file), "--set", "simulator.enabled=false")
    assert (status, printed.splitlines()) == (
        0,
        [
            "co2: MH-Z19 on /dev/serial0: air_carbon_dioxide",
            "light: lamp on GPIO 12 (white): light_intensity_white",
            "fan: relay on GPIO 24, active low: air_flush_on",
            "The configuration is valid, for the hardware of this machine.",
        ],
    )


VALVE = """
[[output]]
name = "valve"
pin = 23
variable = "air_carbon_dioxide_valve_on"
"""
HIGH_CEILING = f"""
[simulator]
enabled = true
{VALVE}
[interlock]
ceiling_ppm = 30000
"""


def checked(folder, text):
    """The exit status and the output of `growd check` with a file of this content."""
    (folder / "growd.toml").write_text(text)
    return said("check", "--config", str(folder / "growd.toml"))


def test_a_doubtful_option_gets_a_warning_with_its_line(tmp_path):
    status, printed = checked(tmp_path, HIGH_CEILING)
    where = f"warning: {tmp_path}/growd.toml:11: [interlock] ceiling_ppm: "
    expected = f"{where}30000 is far above the default of 5000; set it below 10000"
    assert (status, printed.splitlines()[0]) == (0, expected)
    assert "with 1 warning." in printed.splitlines()[-1]


def test_a_file_without_simulator_enabled_gets_a_warning(tmp_path):
    status, printed = checked(tmp_path, "[http]\nport = 7000\n")
    where = f"warning: {tmp_path}/growd.toml: [simulator] enabled: "
    assert (status, printed.partition(";")[0]) == (0, f"{where}is not set, so the hardware is SIMULATED")
    assert "warning" not in checked(tmp_path, "[simulator]\nenabled = true\n")[1]


LAMP = '[[light.channel]]\nname = "white"\npin = 12\n'
BLIND = '[[sensor]]\nname = "lux"\nkind = "bh1750"\n'


@pytest.mark.parametrize(
    ("file", "warnings"),
    [
        (VALVE, []),
        (f'{VALVE}needs = ""', ["[output] needs: valve may be open while air_carbon_dioxide is not known"]),
        (f'{VALVE}needs = "air_humidity"', ["[output] needs: valve may be open while air_carbon_dioxide"]),
        (
            f'{BLIND}{VALVE}needs = ""',
            ["[output] needs: no sensor measures air_carbon_dioxide, so no ceiling"],
        ),
        (
            f"{VALVE}[interlock]\ndose_s = 3600\nvalve_open_s = 86400\nlight_off_degc = 85\n{LAMP}",
            [
                "[interlock] dose_s: 3600 is",
                "[interlock] valve_open_s: 86400",
                "[interlock] light_off_degc: 85",
            ],
        ),
        (
            f'[[sensor]]\nname = "air"\nkind = "scd30"\nself_calibration = true{VALVE}',
            ["[sensor] self_calibration: air treats the lowest CO2 of a day"],
        ),
    ],
)
def test_a_valve_without_protection_gets_a_warning(tmp_path, file, warnings):
    status, printed = checked(tmp_path, f"[simulator]\nenabled = true\n{file}")
    found = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("warning: ")]
    assert (status, len(found)) == (0, len(warnings)), printed
    for line, expected in zip(found, warnings, strict=True):
        assert expected in line


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
    file = tmp_path / "growd.toml"
    file.write_text(SHELVES)
    status, printed = said("check", "--config", str(file))
    assert (status, [line.partition(":")[0] for line in printed.splitlines()][:-1]) == (
        0,
        ["environment_1/air", "shelf_2/air", "shelf_2/light", "shelf_2/fan"],
    )
    faults = tmp_path / "faults.toml"
    faults.write_text(
        '[[fault]]\ndevice = "i2c-3:0x61"\nkind = "absent"\n[[fault]]\ndevice = "gpio-20"\nkind = "refused"\n'
    )
    status, printed = said("check", "--hardware", "--config", str(file), "--faults", str(faults))
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "http.prot=1"], "growd: --set http.prot: [http] prot: unknown option; is it port?"),
        (["--hardware", "--faults", "/nowhere/faults.toml"], "/nowhere/faults.toml: can't be read"),
    ],
)
def test_errors_that_prevent_a_check_are_one_sentence(arguments, words):
    status, printed = said("check", *arguments)
    assert status == 1
    assert words in printed


def test_real_hardware_on_another_machine_is_one_sentence(tmp_path):
    with LastingPins(tmp_path).here(chips={0: "INT34C5:00"}):
        status, printed = said(
            "check", "--hardware", "--set", "simulator.enabled=false", "--set", "http.port=0"
        )
    assert status == 1
    assert "this machine is not a Raspberry Pi: its GPIO chips are INT34C5:00" in printed
    assert len(printed.splitlines()) == 1, printed


def test_what_cannot_be_asked_does_not_count_as_answering(tmp_path):
    file = tmp_path / "growd.toml"
    file.write_text(
        """
        [simulator]
        enabled = true

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
    )
    status, printed = said("check", "--hardware", "--config", str(file))
    warning, by_hand, pump, other, _, summary = printed.splitlines()
    assert "other stays on if growd hangs" in warning
    assert status == 0
    assert by_hand.endswith("clients post it while growd runs, so it was not asked")
    assert pump.endswith("the broker took the command for its safe state; the device itself was not asked")
    assert other.endswith("it follows while growd runs, so it was not asked")
    assert summary == "1 of 1 devices answer, 3 cannot be asked (simulated hardware)."


def test_without_a_configuration_the_simulated_hardware_is_named_first_and_answers():
    status, printed = said("check", "--hardware", "--set", "light.enabled=true")
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
    status, printed = await asyncio.to_thread(said, "check", "--hardware", *settings)
    assert status == 1
    assert printed.startswith(f"growd: growd is running at {daemon.origin}/_svc and owns the hardware")
