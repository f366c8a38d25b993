"""Outputs as the configuration says, on pins that may refuse."""

import asyncio

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.config import (
    ChamberOptions,
    ChannelOptions,
    Config,
    ConfigError,
    Light,
    Output,
    Sensor,
    Simulator,
    chambers_of,
    load,
)
from growd.config.profiles import profile_path
from growd.config.services import Gpio
from growd.runtime.clock import RealClock
from growd.wiring.hardware import opened_hardware
from growd.wiring.outputs import check_pwm, lamp_channel, output_device, place_of_output
from growd_drivers.errors import HardwareUnavailableError
from growd_hwsim.faults import Fault
from growd_hwsim.hardware import Wiring
from support.machine import SleepingTime, simulated
from support.rig import rigged

LAMP = Light(
    channel=(ChannelOptions(name="white", pin=12),),
    frequency_hz=500,
    minimum_duty=0.1,
    gamma=2.0,
    inverted=True,
)


VALID_S = 60.0


def channels_of(machine, light):
    return [lamp_channel(machine, light, channel) for channel in light.channel]


@pytest.fixture
def machine():
    machine = simulated(SleepingTime())
    yield machine
    machine.close()


def test_the_lamp_has_its_configuration(machine):
    (lamp,) = channels_of(machine, LAMP)
    lamp.use().write(0.5, VALID_S)
    event = machine.pins.history[-1]
    assert (event.pin, event.high, event.frequency_hz) == (12, pytest.approx(1 - (0.1 + 0.9 / 4)), 500)
    lamp.close()
    assert machine.pins.high(12) == 1


@pytest.mark.parametrize(("active", "safe", "levels"), [("high", "off", [0, 1, 0]), ("low", "on", [0, 1, 0])])
def test_a_relay_has_its_configuration(machine, active, safe, levels):
    settings = Output(name="fan", pin=24, variable="air_flush_on", active=active, safe=safe)
    (output,) = chambers_of(Config(output=(settings,)))[0].outputs
    output_device(machine, output).close()
    assert not machine.pins.history  # it was never used
    relay = output_device(machine, output)
    relay.use().write(float(safe == "off"), VALID_S)
    relay.close()
    assert [event.high for event in machine.pins.history] == levels


WIRED_TO_PWM = Wiring(lamp_pins={"white": 12, "blue": 22}, inverted_lamps=True, pwm_chips={2: 4})
BY_HARDWARE = Light(
    channel=(ChannelOptions(name="white", pin=12), ChannelOptions(name="blue", pin=22)),
    inverted=True,
    kind="hardware_pwm",
)


def test_pins_of_the_pwm_chip_are_dimmed_by_it_and_the_others_by_software():
    machine = simulated(SleepingTime(), wiring=WIRED_TO_PWM)
    machine.pwm_chip = 2
    assert machine.chamber.illuminance_lux() > 0  # an inverted lamp is lit from boot on
    white, blue = channels_of(machine, BY_HARDWARE)
    for channel in (white, blue):
        channel.use()
    assert machine.chamber.illuminance_lux() == 0
    white.use().write(0.25, VALID_S)
    blue.use().write(0.5, VALID_S)
    assert (machine.pwm_files.high(12), machine.pins.high(22)) == (0.75, 0.5)
    assert {event.pin for event in machine.pins.history} == {22}
    assert machine.chamber.illuminance_lux() > 0
    white.close()
    blue.close()
    assert (machine.pwm_files.high(12), machine.pins.high(22)) == (1, 1)
    assert machine.chamber.illuminance_lux() == 0
    machine.close()


def test_a_missing_or_refusing_pwm_chip_is_an_error_of_the_lamp_with_advice(machine, said):
    machine.pwm_chip = 2
    check_pwm(machine, Config(light=BY_HARDWARE))
    with said.raises(HardwareUnavailableError):
        channels_of(machine, BY_HARDWARE)[0].use()
    wired = simulated(SleepingTime(), wiring=WIRED_TO_PWM)
    wired.faults.inject(Fault("refused", "gpio-12"))
    with said.raises(HardwareUnavailableError):
        channels_of(wired, BY_HARDWARE)[0].use()
    wired.close()


async def test_the_pwm_chip_is_that_of_the_configuration(machine, monkeypatch):
    monkeypatch.setattr("growd.wiring.hardware.open_hardware", lambda **_: machine)
    config = Config(simulator=Simulator(enabled=False), gpio=Gpio(pwm_chip=2))
    async with opened_hardware(config, Bus(RealClock()), None) as found:
        assert found.pwm_chip == 2


async def test_two_lamp_channels_on_one_pwm_channel_of_this_model_are_refused(monkeypatch, said):
    pins = {"white": 12, "red": 13, "blue": 18}
    light = Light(kind="hardware_pwm")
    assert {channel.name: channel.pin for channel in light.channel} == pins
    machine = simulated(SleepingTime(), wiring=Wiring(lamp_pins=pins, pwm_chips={0: 4}))
    check_pwm(machine, Config(light=light))
    machine.close()
    machine = simulated(SleepingTime(), wiring=Wiring(lamp_pins=pins, pwm_chips={0: 2}))
    with said.raises(ConfigError):
        check_pwm(machine, Config(light=light))
    monkeypatch.setattr("growd.wiring.hardware.open_hardware", lambda **_: machine)
    real = Simulator(enabled=False)
    with said.raises(ConfigError):
        async with opened_hardware(Config(simulator=real, light=light), Bus(RealClock()), None):
            pass
    red = Light(kind="hardware_pwm", channel=(ChannelOptions(name="red", pin=12),))
    blue = Light(kind="hardware_pwm", channel=(ChannelOptions(name="blue", pin=18),))
    two = Config(light=red, chamber={"shelf_2": ChamberOptions(light=blue)})
    both = (
        r"\[chamber.shelf_2.light\] channel.pin: environment_1/red and shelf_2/blue, on GPIO 12 and 18, share"
    )
    with pytest.raises(ConfigError, match=both):
        check_pwm(machine, two)
    for harmless in (Light(), Light(kind="hardware_pwm", enabled=False)):
        check_pwm(machine, Config(light=harmless))
    machine.close()


def test_an_output_that_could_not_be_opened_is_opened_at_a_later_use(machine):
    (lamp,) = channels_of(machine, LAMP)
    machine.faults.inject(Fault("refused", "gpio-12"))
    for _ in range(2):
        with pytest.raises(HardwareUnavailableError, match="GPIO 12 can't be driven"):
            lamp.use()
    with pytest.raises(HardwareUnavailableError):
        lamp.close()
    machine.faults.clear()
    lamp.use().write(1.0, VALID_S)
    assert machine.pins.high(12) == 0
    lamp.close()
    assert machine.pins.high(12) == 1


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"pin": 17}, "relay on GPIO 17"),
        ({"kind": "hardware_pwm", "pin": 12}, "hardware PWM on GPIO 12"),
        ({"kind": "http", "protocol": "shelly_gen1", "url": "http://x"}, "Shelly at http://x"),
        ({"kind": "http", "url_on": "http://x/on?key=s3cr3t"}, "device at http://x/on"),
        ({"kind": "mqtt", "protocol": "tasmota", "topic": "plug"}, "Tasmota device at the MQTT topic plug"),
        ({"kind": "topic"}, "program that reads outputs/it"),
    ],
)
def test_the_place_of_an_output_in_words(options, place):
    assert place_of_output(Output(name="it", **options)) == place


async def test_a_lamp_on_a_relay_is_on_or_off_and_not_calibrated():
    lux = Sensor(name="lux", kind="bh1750")
    config = await asyncio.to_thread(load, profile_path("minimal"))
    async with rigged(replace(config, sensor=(*config.sensor, lux), simulator=Simulator())) as rig:
        assert not [name for name in rig.bus.services.names() if name.endswith("calibrate_light")]
        client = rig.bus.node("client")
        for level, lit in ((0.6, 1.0), (0.4, 0.0)):
            client.publish_arguments("environment_1/desired/light_intensity_white", [level])
            await rig.clock.advance(5)
            assert rig.last("light_channels").value["x"] == lit
            assert rig.machine.pins.high(24) == 1.0 - lit  # a low pin switches it on
