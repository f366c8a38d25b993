"""Hardware PWM on a simulated /sys/class/pwm, with the lamp's driver above it."""

from __future__ import annotations

import errno
import itertools
from contextlib import suppress

import pytest
from growd_drivers.pwm_light import PwmLight
from growd_drivers.relay import Relay
from hypothesis import given, settings
from hypothesis import strategies as st

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.hardware_pwm import HardwarePwmGpio, SysfsFiles, channels_on
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.gpio import SimulatedGpio
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.pwm_sysfs import SimulatedPwmSysfs
from support.machine import SleepingTime

PIN = 18
CHANNELS = {PIN: (0, 0), 13: (0, 1)}
PERIOD, DUTY, ENABLE, POLARITY = (
    f"pwmchip0/pwm0/{name}" for name in ("period", "duty_cycle", "enable", "polarity")
)


class Bench:
    def __init__(self, **options) -> None:
        self.clock = SleepingTime()
        self.changes: list[tuple[int, float]] = []
        self.files = SimulatedPwmSysfs(CHANNELS, on_change=self.on_change, **options)
        self.others = SimulatedGpio(self.clock.monotonic)
        self.gpio = self.open()

    def open(self) -> HardwarePwmGpio:
        return HardwarePwmGpio(self.others, CHANNELS, sleep=self.clock.sleep, files=self.files)

    def on_change(self, pin: int, high: float) -> None:
        self.changes.append((pin, high))

    def light(self, **options) -> PwmLight:
        return PwmLight(self.gpio, {"white": PIN}, **options)


@pytest.fixture
def bench():
    return Bench()


def test_a_channel_gets_its_duty_before_it_is_enabled(bench):
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    assert list(bench.files.history) == [
        ("pwmchip0/export", "0"),
        (PERIOD, "5000000"),
        (DUTY, "5000000"),
        (ENABLE, "1"),
    ]
    assert bench.changes == [(PIN, 1.0)]


def test_an_inverted_lamp_is_dark_from_the_first_moment_that_a_program_can_change(bench):
    light = bench.light(inverted=True)
    assert bench.changes == [(PIN, 1.0)]
    light.set("white", 0.75)
    assert bench.files.high(PIN) == pytest.approx(0.25)
    light.close()
    assert bench.changes == [(PIN, 1.0), (PIN, 0.25), (PIN, 1.0)]  # and no flash on the way out


def test_a_lamp_is_dark_before_its_first_level(bench):
    light = bench.light(frequency_hz=25_000 / 4)
    assert not bench.changes
    light.set("white", 0.5)
    light.close()
    assert [high for _, high in bench.changes] == [0.5, 0.0]


def test_a_pin_of_the_peripheral_is_never_set_up_as_gpio(bench):
    light = bench.light()
    light.set("white", 0.5)
    light.close()
    assert not bench.others.history
    with pytest.raises(OSError, match="not set up"):
        bench.others.output(PIN, 0)


def test_all_other_pins_are_gpio(bench):
    relay = Relay(bench.gpio, 23)
    relay.set(True)
    light = PwmLight(bench.gpio, {"red": 24})
    light.set("red", 0.4)
    assert (bench.others.high(23), bench.others.high(24)) == (1.0, pytest.approx(0.4))
    assert not bench.files.history
    light.close()


def test_the_frequency_is_the_one_asked_for_and_a_change_of_duty_is_one_write(bench):
    light = bench.light(frequency_hz=1000)
    light.set("white", 0.25)
    assert bench.files.read(PERIOD) == "1000000\n"
    written = len(bench.files.history)
    light.set("white", 0.5)
    assert list(bench.files.history)[written:] == [(DUTY, "500000")]
    light.close()


@settings(deadline=None)
@given(
    steps=st.lists(st.tuples(st.floats(1, 10_000), st.floats(0, 100)), min_size=2, max_size=5),
)
def test_from_any_period_and_duty_to_any_other_each_step_is_one_that_the_kernel_takes(steps):
    bench = Bench()
    for frequency, percent in steps:
        pwm = bench.gpio.PWM(PIN, frequency)
        pwm.start(percent)
        assert bench.files.high(PIN) == pytest.approx(percent / 100, abs=1e-4)
        assert int(bench.files.read(PERIOD)) == round(1e9 / frequency)


def test_after_stop_the_pin_keeps_its_level_and_can_be_driven(bench):
    pwm = bench.gpio.PWM(PIN, 200)
    pwm.ChangeDutyCycle(50)
    assert not bench.files.history  # not started
    pwm.start(50)
    pwm.stop()
    assert bench.files.high(PIN) == 0.5
    pwm.ChangeDutyCycle(70)
    assert bench.files.high(PIN) == 0.5
    for level in (1, 0):
        bench.gpio.output(PIN, level)
        assert bench.files.high(PIN) == level


def test_a_running_channel_is_taken_over_without_a_low_pin(bench):
    bench.light(inverted=True).set("white", 0.5)
    del bench.changes[:]
    bench.gpio = bench.open()  # the next program
    light = bench.light(inverted=True)
    assert bench.changes == [(PIN, 1.0)]
    assert [path for path, _ in bench.files.history].count("pwmchip0/export") == 1
    light.close()


def test_a_channel_that_another_program_gave_back_runs_again(bench):
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    bench.files.write("pwmchip0/unexport", "0")
    assert bench.files.high(PIN) == 0.0
    bench.gpio.output(PIN, 1)
    assert bench.files.high(PIN) == 1.0


def test_a_channel_that_was_given_back_runs_again_after_udev_took_too_long_as_well():
    bench = Bench(refusals=25)
    for _ in range(2):
        with pytest.raises(OSError, match="may not be written"):
            bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
        for _ in range(10):
            with suppress(OSError):
                bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
        assert bench.files.high(PIN) == 1.0
        bench.files.write("pwmchip0/unexport", "0")
        assert bench.files.high(PIN) == 0.0


def test_a_polarity_that_another_program_left_is_put_right(bench):
    for path, text in (("export", "0"), ("pwm0/period", "5000000"), ("pwm0/polarity", "inversed")):
        bench.files.write(f"pwmchip0/{path}", text)
    bench.files.write(ENABLE, "1")
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    assert bench.files.read(POLARITY) == "normal\n"
    assert bench.files.high(PIN) == 1.0


def test_udev_is_waited_for():
    bench = Bench(refusals=6)
    before = bench.clock.now
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    assert bench.files.high(PIN) == 1.0
    assert 0.2 < bench.clock.now - before < 1.0


def test_udev_is_not_waited_for_longer_than_a_second():
    bench = Bench(refusals=10_000)
    before = bench.clock.now
    with pytest.raises(HardwareUnavailableError, match=r"pwmchip0 may not be written: .* the group gpio"):
        bench.light()
    waited = bench.clock.now - before
    with pytest.raises(HardwareUnavailableError, match="may not be written"):
        bench.light()
    assert waited == pytest.approx(bench.clock.now - before) == pytest.approx(1.0)  # not again, either


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"chips": {2: 4}},
            r"there is no pwmchip0: set dtoverlay=pwm-2chan in config\.txt, or pwm_chip",
        ),
        ({"may_export": False}, "pwmchip0 may not be written: add growd's user to the group gpio"),
        ({"in_use": [(0, 0)]}, "channel 0 of pwmchip0 is in use by the kernel, perhaps for the fan"),
        ({"is_refused": lambda _pin: True}, "pwmchip0: Input/output error"),
    ],
    ids=["no overlay", "no group", "in use", "failed"],
)
def test_an_unavailable_pin_is_one_error_with_advice(options, words):
    with pytest.raises(HardwareUnavailableError, match=f"light: GPIO 18 can't be driven: {words}"):
        Bench(**options).light()


def test_a_missing_channel_is_reported(bench):
    gpio = HardwarePwmGpio(bench.others, {PIN: (0, 2)}, sleep=bench.clock.sleep, files=bench.files)
    with pytest.raises(OSError, match=r"^pwmchip0 has no channel 2$"):
        gpio.setup(PIN, gpio.OUT, initial=0)


def test_a_frequency_that_the_kernel_refuses_is_reported(bench):
    with pytest.raises(OSError, match="channel 0 of pwmchip0 does not take this frequency"):
        bench.gpio.PWM(PIN, 0.01).start(50)


def test_a_write_that_failed_once_is_made_good_by_the_next(bench):
    light = bench.light()
    refused = itertools.chain([True], itertools.repeat(False))
    bench.files._is_refused = lambda _pin: next(refused)
    with pytest.raises(HardwareUnavailableError):
        light.set("white", 0.5)
    light.set("white", 0.5)
    assert bench.files.high(PIN) == pytest.approx(0.5)
    light.close()


def test_two_pins_of_one_channel_are_refused(bench):
    with pytest.raises(SettingError, match="GPIO 13 and GPIO 19 have the same channel, 1 of pwmchip0"):
        HardwarePwmGpio(bench.others, {13: (0, 1), 19: (0, 1)}, sleep=bench.clock.sleep, files=bench.files)


@pytest.mark.parametrize(
    ("count", "channels"), [(2, {12: 0, 13: 1, 18: 0, 19: 1}), (4, {12: 0, 13: 1, 18: 2, 19: 3})]
)
def test_the_number_of_channels_gives_the_pins_of_a_chip(count, channels):
    files = SimulatedPwmSysfs({}, chips={1: count})
    assert channels_on(1, files) == {pin: (1, channel) for pin, channel in channels.items()}


@pytest.mark.parametrize(
    ("chip", "words"), [(0, "hardware PWM: there is no pwmchip0"), (1, "pwmchip1 has 3 channels")]
)
def test_a_chip_for_other_pins_is_refused(chip, words):
    with pytest.raises(HardwareUnavailableError, match=words):
        channels_on(chip, SimulatedPwmSysfs({}, chips={1: 3}))


def test_the_kernels_files_are_read_and_written_and_never_made(tmp_path):
    (tmp_path / "pwmchip0").mkdir()
    (tmp_path / "pwmchip0" / "npwm").write_text("2\n")
    (tmp_path / "pwmchip0" / "export").touch(mode=0o200)
    files = SysfsFiles(tmp_path)
    assert channels_on(0, files)[18] == (0, 0)
    files.write("pwmchip0/export", "1")
    (tmp_path / "pwmchip0" / "export").chmod(0o600)
    assert files.read("pwmchip0/export") == "1"
    with pytest.raises(FileNotFoundError):
        files.write("pwmchip0/period", "1")
    assert not (tmp_path / "pwmchip0" / "period").exists()


def test_the_chambers_lamp_is_lit_by_it():
    clock = SleepingTime()
    chamber = SimulatedChamber(clock.monotonic, ChamberParameters(daylight_lux=0.0))
    files = SimulatedPwmSysfs(CHANNELS, on_change=lambda _pin, high: chamber.set_lamp("white", high))
    gpio = HardwarePwmGpio(SimulatedGpio(clock.monotonic), CHANNELS, sleep=clock.sleep, files=files)
    light = PwmLight(gpio, {"white": PIN})
    assert chamber.illuminance_lux() == 0.0
    light.set("white", 1.0)
    full = chamber.illuminance_lux()
    light.set("white", 0.5)
    assert chamber.illuminance_lux() == pytest.approx(full / 2)
    light.close()
    assert chamber.illuminance_lux() == 0.0


@pytest.mark.parametrize(
    ("path", "text", "number"),
    [
        ("pwmchip0/pwm0/duty_cycle", "1", errno.EINVAL),  # while the period is 0
        ("pwmchip0/pwm0/enable", "1", errno.EINVAL),
        ("pwmchip0/pwm0/polarity", "inversed", errno.EINVAL),
        ("pwmchip0/pwm0/period", "many", errno.EINVAL),
        ("pwmchip0/pwm0/period", "-5", errno.EINVAL),
        ("pwmchip0/pwm1/period", "5", errno.ENOENT),
        ("pwmchip0/pwm0/phase", "5", errno.ENOENT),
        ("pwmchip1/export", "0", errno.ENOENT),
        ("pwmchip0/export", "0", errno.EBUSY),
        ("pwmchip0/export", "2", errno.ENODEV),
        ("pwmchip0/unexport", "1", errno.ENODEV),
    ],
)
def test_the_simulated_kernel_refuses_what_the_kernel_refuses(bench, path, text, number):
    bench.files.write("pwmchip0/export", "0")
    with pytest.raises(OSError) as caught:  # noqa: PT011  its number is looked at
        bench.files.write(path, text)
    assert caught.value.errno == number
    assert list(bench.files.history) == [("pwmchip0/export", "0")]


def test_the_simulated_kernel_keeps_the_duty_within_the_period_and_the_polarity_while_enabled(bench):
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    for path, text, number in (
        (DUTY, "5000001", errno.EINVAL),
        (PERIOD, "4999999", errno.EINVAL),
        (ENABLE, "2", errno.EINVAL),
        (POLARITY, "upside down", errno.EINVAL),
        (POLARITY, "inversed", errno.EBUSY),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011  as above
            bench.files.write(path, text)
        assert caught.value.errno == number
    assert bench.files.high(PIN) == 1.0


def test_the_simulated_kernel_applies_only_changes(bench):
    bench.gpio.setup(PIN, bench.gpio.OUT, initial=1)
    bench.files.write("pwmchip0/unexport", "0")
    bench.files.write("pwmchip0/export", "0")
    assert bench.files.read(ENABLE) == "1\n"
    bench.files.write(ENABLE, "1")
    assert bench.files.high(PIN) == 0.0
    bench.files.write(ENABLE, "0")
    bench.files.write(ENABLE, "1")
    assert bench.files.high(PIN) == 1.0
