"""Hardware PWM on a simulated /sys/class/pwm, with the pin keeper and the driver of lamps above it."""

import errno
import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers import pins
from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.hardware_pwm import PwmChannel, SysfsFiles, channels_on
from growd_drivers.pin_output import PinOutput
from growd_hwsim.gpio import SimulatedPins
from growd_hwsim.pwm_sysfs import SimulatedPwmSysfs
from support.machine import SleepingTime

PIN = 18
LEASE_S = 2.0
CHANNELS = {PIN: (0, 0), 13: (0, 1)}
PERIOD, DUTY, ENABLE, POLARITY = (
    f"pwmchip0/pwm0/{name}" for name in ("period", "duty_cycle", "enable", "polarity")
)


class Bench:
    def __init__(self, **options):
        self.clock = SleepingTime()
        self.changes = []
        self.files = SimulatedPwmSysfs(CHANNELS, on_change=self.on_change, **options)
        self.pins = self.open()

    def open(self):
        return SimulatedPins(self.clock.monotonic, pwm_files=self.files)

    def on_change(self, pin, high):
        self.changes.append((pin, high))

    def light(self, pin=PIN, *, frequency_hz=200.0, active_high=True):
        return PinOutput(
            self.pins, pin, name="light", frequency_hz=frequency_hz, active_high=active_high, pwm_chip=0
        )


@pytest.fixture
def bench():
    return Bench()


def test_a_channel_gets_its_duty_before_it_is_enabled(bench):
    bench.pins.claim(PIN, 1, 0)
    assert list(bench.files.history) == [
        ("pwmchip0/export", "0"),
        (PERIOD, "5000000"),
        (DUTY, "5000000"),
        (ENABLE, "1"),
    ]
    assert bench.changes == [(PIN, 1.0)]


def test_a_lamp_is_dark_before_its_first_level_after_its_lease_and_at_the_end(bench):
    light = bench.light()
    assert not bench.changes
    light.write(0.5, LEASE_S)
    bench.clock.advance(LEASE_S)
    bench.pins.advance(bench.clock.now)
    assert bench.changes == [(PIN, 0.5), (PIN, 0.0)]
    assert light.write(0.4, LEASE_S) == LEASE_S
    light.close()
    assert bench.changes[2:] == [(PIN, 0.4), (PIN, 0.0)]
    assert not bench.pins.history  # never set up as GPIO
    assert PIN not in bench.pins.lines.levels


def test_an_inverted_lamp_is_dark_from_the_first_moment_that_a_program_can_change(bench):
    light = bench.light(active_high=False)
    assert bench.changes == [(PIN, 1.0)]
    light.write(0.75, LEASE_S)
    assert bench.files.high(PIN) == pytest.approx(0.25)
    light.close()
    assert bench.changes == [(PIN, 1.0), (PIN, 0.25), (PIN, 1.0)]  # and no flash on the way out


@pytest.mark.parametrize("chips", [{0: 2}, {}], ids=["with the chip", "without"])
def test_all_other_pins_are_gpio(chips):
    bench = Bench(chips=chips)
    light = bench.light(24)
    light.write(0.4, LEASE_S)
    assert bench.pins.high(24) == pytest.approx(0.4)
    assert not bench.files.history
    light.close()


def test_the_frequency_is_the_one_asked_for_and_a_change_of_duty_is_one_write(bench):
    light = bench.light(frequency_hz=1000)
    light.write(0.25, LEASE_S)
    assert bench.files.read(PERIOD) == "1000000\n"
    written = len(bench.files.history)
    light.write(0.5, LEASE_S)
    assert list(bench.files.history)[written:] == [(DUTY, "500000")]
    light.close()


@given(steps=st.lists(st.tuples(st.floats(1, 10_000), st.floats(0.001, 0.999)), min_size=2, max_size=5))
def test_from_any_period_and_duty_to_any_other_each_step_is_one_that_the_kernel_takes(steps):
    bench = Bench()
    bench.pins.claim(PIN, 0, 0)
    for frequency_hz, high in steps:
        bench.pins.write(PIN, high, frequency_hz, LEASE_S)
        assert bench.files.high(PIN) == pytest.approx(high, abs=1e-4)
        assert int(bench.files.read(PERIOD)) == round(1e9 / frequency_hz)
        for level in (1.0, 0.0):
            bench.pins.write(PIN, level, frequency_hz, LEASE_S)
            assert bench.files.high(PIN) == level


def test_a_running_channel_is_taken_over_without_a_low_pin(bench):
    bench.light(active_high=False).write(0.5, LEASE_S)
    del bench.changes[:]
    bench.pins = bench.open()  # the next program
    light = bench.light(active_high=False)
    assert bench.changes == [(PIN, 1.0)]
    assert [path for path, _ in bench.files.history].count("pwmchip0/export") == 1
    light.close()


def test_a_channel_that_another_program_gave_back_runs_again_with_its_polarity(bench):
    bench.pins.claim(PIN, 1, 0)
    bench.files.write("pwmchip0/unexport", "0")
    assert bench.files.high(PIN) == 0.0
    for path, text in (("export", "0"), ("pwm0/enable", "0"), ("pwm0/polarity", "inversed")):
        bench.files.write(f"pwmchip0/{path}", text)
    bench.files.write(ENABLE, "1")
    bench.pins.claim(PIN, 1, 0)
    assert bench.files.read(POLARITY) == "normal\n"
    assert bench.files.high(PIN) == 1.0


def test_a_channel_that_was_given_back_runs_again_after_udev_took_too_long_as_well(monkeypatch):
    monkeypatch.setattr(pins, "_PERMISSION_S", 0.0)
    monkeypatch.setattr(pins, "_POLL_S", 0.0)
    bench = Bench(refusals=25)
    for _ in range(2):
        with pytest.raises(OSError, match="may not be written"):
            bench.pins.claim(PIN, 1, 0)
        for _ in range(30):
            with suppress(OSError):
                bench.pins.claim(PIN, 1, 0)
        assert bench.files.high(PIN) == 1.0
        bench.files.write("pwmchip0/unexport", "0")
        assert bench.files.high(PIN) == 0.0


def test_udev_is_waited_for_but_not_without_end(monkeypatch, said):
    bench = Bench(refusals=6)
    bench.pins.claim(PIN, 1, 0)
    assert bench.files.high(PIN) == 1.0
    monkeypatch.setattr(pins, "_PERMISSION_S", 0.1)
    with said.raises(HardwareUnavailableError):
        Bench(refusals=10_000).light()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"chips": {2: 4}},
            r"hardware PWM: there is no pwmchip0: set dtoverlay=pwm-2chan in config\.txt, or pwm_chip",
        ),
        ({"may_export": False}, "pwmchip0 may not be written: add growd's user to the group gpio"),
        ({"in_use": [(0, 0)]}, "channel 0 of pwmchip0 is in use by the kernel, perhaps for the fan"),
        ({"is_refused": lambda _pin: True}, "pwmchip0: Input/output error"),
    ],
    ids=["no overlay", "no group", "in use", "failed"],
)
def test_an_unavailable_pin_is_one_error_with_advice(options, words, monkeypatch):
    monkeypatch.setattr(pins, "_PERMISSION_S", 0.0)
    with pytest.raises(HardwareUnavailableError, match=f"light: GPIO 18 can't be driven: {words}"):
        Bench(**options).light()


def test_a_missing_channel_is_reported(bench, said):
    with said.raises(OSError):
        PwmChannel(bench.files, 0, 2).set(0, 0, 0)


def test_a_frequency_that_the_kernel_refuses_is_reported(bench, said):
    light = bench.light(frequency_hz=0.01)
    with said.raises(HardwareUnavailableError):
        light.write(0.5, LEASE_S)
    bench.pins.advance(bench.clock.now)
    assert bench.files.high(PIN) == 0.0


def test_a_write_that_failed_once_is_made_good_by_the_next(bench):
    light = bench.light()
    refused = itertools.chain([True], itertools.repeat(False))
    bench.files._is_refused = lambda _pin: next(refused)
    with pytest.raises(HardwareUnavailableError):
        light.write(0.5, LEASE_S)
    light.write(0.5, LEASE_S)
    assert bench.files.high(PIN) == pytest.approx(0.5)
    light.close()


def test_the_number_of_channels_gives_the_pins_of_a_chip():
    files = SimulatedPwmSysfs({}, chips={1: 2, 2: 4, 3: 3})
    assert channels_on(1, files) == {12: (1, 0), 13: (1, 1), 18: (1, 0), 19: (1, 1)}
    assert channels_on(2, files) == {12: (2, 0), 13: (2, 1), 18: (2, 2), 19: (2, 3)}
    for chip, words in ((0, "hardware PWM: there is no pwmchip0"), (3, "pwmchip3 has 3 channels")):
        with pytest.raises(HardwareUnavailableError, match=words):
            channels_on(chip, files)


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
    bench.pins.claim(PIN, 1, 0)
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
    bench.pins.claim(PIN, 1, 0)
    bench.files.write("pwmchip0/unexport", "0")
    bench.files.write("pwmchip0/export", "0")
    assert bench.files.read(ENABLE) == "1\n"
    bench.files.write(ENABLE, "1")
    assert bench.files.high(PIN) == 0.0
    bench.files.write(ENABLE, "0")
    bench.files.write(ENABLE, "1")
    assert bench.files.high(PIN) == 1.0
