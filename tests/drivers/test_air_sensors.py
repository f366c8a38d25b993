"""What the drivers of sensors of the air have in common."""

import errno
from dataclasses import fields
from itertools import pairwise

import pytest

from growd_drivers.errors import DeviceMissingError, DriverError, TransferError
from growd_hwsim.chamber import Air
from growd_hwsim.chip import SENSORS
from growd_hwsim.faults import Fault
from support.chip_bench import AirBench

OF_AIR = ("scd30", "scd4x", "sht3x", "sht4x", "bme280")
WITH_CRC = [name for name in OF_AIR if "bad_crc" in SENSORS[name].faults]
NOISE = {"carbon_dioxide_ppm": 10.5, "temperature_degc": 0.11, "humidity_percent": 0.45, "pressure_hpa": 0.1}


@pytest.fixture(params=OF_AIR)
def bench(request):
    bench = AirBench(request.param)
    yield bench
    bench.bus.close()


def check(bench, sample):
    truth = {**bench.air._asdict(), "pressure_hpa": 1013.25}
    for field in fields(sample):
        assert getattr(sample, field.name) == pytest.approx(truth[field.name], abs=NOISE[field.name])


@pytest.mark.parametrize(
    "air", [Air(800.0, 25.0, 60.0), Air(450.0, 4.0, 99.0), Air(5_000.0, 41.0, 5.0), Air(400.0, -5.0, 30.0)]
)
def test_a_reading_is_the_air_around_the_chip(bench, air):
    bench.air = air
    bench.start()
    check(bench, bench.next())


def test_a_chip_that_was_unplugged_is_set_up_again(bench):
    bench.start()
    bench.next()
    bench.disconnect()
    with pytest.raises(DeviceMissingError):
        bench.next()
    bench.chip.power_cycle()
    bench.connect()
    bench.clock.advance(1.0)
    bench.start()
    check(bench, bench.next())


@pytest.mark.parametrize("name", WITH_CRC)
def test_no_flipped_bit_of_an_answer_is_ever_a_reading(name):
    bench = AirBench(name)
    bench.start()
    bench.faults.inject(Fault("bad_crc", name))
    with pytest.raises(TransferError, match="sent data with a wrong checksum, at 50 kHz") as caught:
        bench.next()
    assert (caught.value.errno, caught.value.address) == (errno.EBADMSG, bench.address)
    bench.faults.clear()
    forward = bench.chip.on_read
    for bit in range(0, 72, 5):

        def flipped(length, bit=bit):
            answer = bytearray(forward(length))
            answer[bit // 8 % len(answer)] ^= 1 << bit % 8
            return bytes(answer)

        bench.chip.on_read = flipped
        with pytest.raises(DriverError):
            bench.next()
    bench.chip.on_read = forward
    check(bench, bench.next())


def test_few_measurements_of_a_chip_in_steady_air_are_that_before(bench):
    bench.start()
    samples = [bench.next() for _ in range(100)]
    assert sum(sample == last for last, sample in pairwise(samples)) <= 1
