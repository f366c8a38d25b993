"""A recording drives the chamber: simulated sensors measure recorded values."""

import contextlib
from zipfile import ZipFile

import pytest

from growd_drivers.bh1750 import Bh1750
from growd_drivers.errors import DeviceMissingError, NotReadyError
from growd_drivers.scd30 import Scd30
from growd_hwsim.errors import NothingRecordedError, ReplayFileError, SimulationError
from growd_hwsim.hardware import SimulatedHardware, WiredChip, Wiring
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.replay import ReplayedChamber, load_recording
from support.machine import SleepingTime

EXPORT = """\
timestamp,variable,value\r
1000,air_carbon_dioxide,500\r
1000,air_temperature,20.5\r
1000,light_illuminance,8000\r
1000,air_humidity,60\r
1300,air_carbon_dioxide,0\r
1300.5,air_temperature,21\r
1600,air_carbon_dioxide,700\r
1600,water_temperature,broken\r
1600,light_illuminance,\r
"""


def write(folder, text):
    path = folder / "recorded.csv"
    path.write_bytes(text.encode())
    return path


class Bench:
    def __init__(self, recorded):
        self.clock = SleepingTime()
        night = ChamberParameters(daylight_lux=0.0)
        self.chamber = ReplayedChamber(load_recording(recorded), self.clock.monotonic, night)

    def machine(self, **wiring):
        return SimulatedHardware(
            self.chamber, sleep=self.clock.sleep, monotonic=self.clock.monotonic, wiring=Wiring(**wiring)
        )

    def at(self, seconds):
        """Go to a time of the recording."""
        self.clock.now = 5_000.0 + seconds


@pytest.fixture
def bench(tmp_path):
    return Bench(write(tmp_path, EXPORT))


def test_each_value_holds_from_its_time_to_the_next_whatever_lamps_and_valve_do(bench):
    bench.chamber.set_lamp("white", 1.0)
    bench.chamber.set_actuator("valve", 1.0)
    seen = []
    for seconds in (0, 299, 300, 301, 599, 600):
        bench.at(seconds)
        air = bench.chamber.air()
        seen.append((air.carbon_dioxide_ppm, air.temperature_degc))
    assert seen == [(500, 20.5), (500, 20.5), (0, 20.5), (0, 21), (0, 21), (700, 21)]
    assert air.humidity_percent == 60
    assert bench.chamber.illuminance_lux() == 8000


def test_variables_that_are_not_recorded_come_from_the_model(tmp_path):
    bench = Bench(write(tmp_path, "timestamp,variable,value\n0,air_carbon_dioxide,500\n"))
    before = bench.chamber.air()
    bench.chamber.set_lamp("white", 1.0)
    bench.at(800)
    after = bench.chamber.air()
    assert after.carbon_dioxide_ppm == before.carbon_dioxide_ppm == 500
    assert after.temperature_degc > before.temperature_degc + 1
    assert bench.chamber.illuminance_lux() == pytest.approx(20_010)
    assert bench.chamber.ppfd_umol_m2_s() == pytest.approx(300)


def test_a_sensor_has_no_lag_since_the_recording_includes_one(tmp_path):
    text = "timestamp,variable,value\n0,air_carbon_dioxide,500\n30,air_carbon_dioxide,1500\n"
    bench = Bench(write(tmp_path, text))
    machine = bench.machine(i2c=(WiredChip("scd30", 1, 0x61),))
    driver = Scd30(machine.i2c(1), sleep=machine.sleep)
    seen = []
    for seconds in (0, 27, 32):
        bench.at(seconds)
        with contextlib.suppress(NotReadyError):
            seen.append(driver.read().carbon_dioxide_ppm)
    machine.close()
    assert seen == [pytest.approx(500, abs=11), pytest.approx(1500, abs=11)]


def test_recorded_ppfd_lights_the_sensor_as_white_light(tmp_path):
    bench = Bench(write(tmp_path, "timestamp_utc,variable,value\n2019-05-06T15:44:15Z,light_ppfd,100\n"))
    assert bench.chamber.ppfd_umol_m2_s() == 100
    assert bench.chamber.illuminance_lux() == pytest.approx(6670)


def test_after_the_gap_limit_there_is_nothing_to_measure_until_the_next_reading(tmp_path):
    text = "timestamp,variable,value\n0,air_carbon_dioxide,500\n2000,air_carbon_dioxide,600\n"
    bench = Bench(write(tmp_path, text))
    bench.at(900)
    assert bench.chamber.air().carbon_dioxide_ppm == 500
    bench.at(901)
    with pytest.raises(NothingRecordedError):
        bench.chamber.air()
    bench.at(2000)
    assert bench.chamber.air().carbon_dioxide_ppm == 600
    bench.at(3000)  # beyond the end
    with pytest.raises(NothingRecordedError):
        bench.chamber.air()


def test_chips_do_not_answer_in_a_gap(tmp_path):
    rows = [f"{time},{name},{value}" for time in (0, 5000) for name, value in GAPPED]
    bench = Bench(write(tmp_path, "\n".join(["timestamp,variable,value", *rows])))
    machine = bench.machine()
    air, light = (
        Scd30(machine.i2c(1), sleep=bench.clock.sleep),
        Bh1750(machine.i2c(1), sleep=bench.clock.sleep),
    )
    with pytest.raises(NotReadyError):
        air.read()
    bench.at(100)
    assert air.read().carbon_dioxide_ppm == pytest.approx(800, abs=10)
    bench.at(1000)
    for sensor in (air, light, air, light):
        bench.clock.advance(0.5)
        with pytest.raises(DeviceMissingError):
            sensor.read()
    bench.at(5001)
    assert light.read().illuminance_lux == pytest.approx(9000, rel=0.01)
    assert measured(bench, air).carbon_dioxide_ppm == pytest.approx(800, abs=10)
    machine.close()


GAPPED = [("air_carbon_dioxide", 800), ("light_illuminance", 9000)]


def measured(bench, air):
    while True:
        try:
            return air.read()
        except NotReadyError:
            bench.clock.advance(1)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "must be timestamp,variable,value"),
        ("time,name,value\n", 1, "must be timestamp,variable,value"),
        ("timestamp,variable,value\n1,air_temperature\n", 2, "has 2 fields"),
        ("timestamp,variable,value\n1,air_temperature,20\nnoon,air_temperature,20\n", 3, "timestamp 'noon'"),
        ("timestamp,variable,value\n2019-13-01T00:00:00Z,air_temperature,20\n", 2, "'2019-13-01T00:00:00Z'"),
        ("timestamp,variable,value\n1,air_temperature,warm\n", 2, "value 'warm' is not a number"),
        ("timestamp,variable,value\n1,air_temperature,nan\n", 2, "value 'nan' is not a number"),
        ("timestamp,variable,value\n2,air_temperature,1\n1,air_temperature,1\n", 3, "timestamp 1 is before"),
        ('timestamp,variable,value\n1,air_temperature,"1\n', 2, "unexpected end of data"),
        ("timestamp,variable,value\n1,water_temperature,20\n", None, "has no reading of air_carbon_dioxide"),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_reason(tmp_path, text, line, reason):
    path = write(tmp_path, text)
    with pytest.raises(ReplayFileError) as caught:
        load_recording(path)
    assert caught.value.line == line
    place = f"{path}: " if line is None else f"{path}: line {line}: "
    assert str(caught.value).startswith(place)
    assert reason in str(caught.value)
    assert isinstance(caught.value, SimulationError)


def test_a_missing_a_binary_or_a_damaged_file_is_refused(tmp_path, said):
    with said.raises(ReplayFileError):
        load_recording(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"timestamp,variable,value\n\xff\xfe,a,b\n")
    with said.raises(ReplayFileError):
        load_recording(tmp_path / "binary.csv")
    with said.raises(ReplayFileError):  # a line without end, early
        load_recording(write(tmp_path, "timestamp,variable,value\n" + "1" * 200_000))
    path = tmp_path / "run.zip"
    with ZipFile(path, "w") as file:
        file.writestr("run-aaaaaa/points.csv", "time,environment\r\n")
    with said.raises(ReplayFileError):
        load_recording(path)
    with ZipFile(path, "w") as file:
        file.writestr("replay.csv", EXPORT)
    path.write_bytes(path.read_bytes().replace(b"8000", b"9000"))  # it is stored, not compressed
    with said.raises(ReplayFileError):
        load_recording(path)


def test_the_file_of_a_run_is_a_recording(tmp_path):
    path = tmp_path / "run.zip"
    with ZipFile(path, "w") as file:
        file.writestr("run-aaaaaa/points.csv", "time,environment\r\n")
        file.writestr("run-aaaaaa/replay.csv", EXPORT)
    of_run, of_file = (load_recording(each) for each in (path, write(tmp_path, EXPORT)))
    for time in (0, 300, 600):
        assert of_run.at("air_carbon_dioxide", time) == of_file.at("air_carbon_dioxide", time)
