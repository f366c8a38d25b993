"""The table of faults for drivers: growd's own pass, and each kind of mistake fails the row that names it."""

import dataclasses

import pytest

from growd import own_kinds
from growd.device_kinds import SENSOR_KINDS
from growd_drivers.kinds import UnloadedKind
from growd_hwsim.driver_bench import SHARE
from growd_hwsim.driver_trials import trials_of
from growd_simulation.driver_trials import subject_of
from growd_simulation.simulated_hardware import chip_fault
from support.own_packages import EXAMPLE, KIND, importable, unpacked, wheel_of

pytestmark = pytest.mark.long

ON_A_BUS = [
    name
    for name, kind in SENSOR_KINDS.items()
    if kind.opens in ("i2c", "serial") and "variable" not in kind.options  # which needs further options
]


@pytest.fixture
def example(tmp_path):
    """Install the example, with its source changed by replacements."""

    def installed(**changes):
        folder = unpacked(wheel_of(EXAMPLE, tmp_path), tmp_path / "installed")
        for name, replacements in changes.items():
            file = folder / f"{name}.py"
            text = file.read_text()
            for old, new in replacements.items():
                assert old in text
                text = text.replace(old, new)
            file.write_text(text)
        kind = own_kinds.sensor_kind(KIND)
        assert kind is not None
        assert not isinstance(kind, UnloadedKind), kind
        assert chip_fault(kind, KIND) == ""
        return subject_of(KIND)

    with importable(tmp_path / "installed"):
        yield installed


def failures(subject):
    rows = [trial.result(subject) for trial in trials_of(subject)]
    return {row.name: row.failure for row in rows if row.failure}


@pytest.mark.parametrize("name", ON_A_BUS)
def test_drivers_of_growd_stand_all_faults(name):
    share = 0.2 if name == "as7341" else SHARE  # it weighs eight colours
    subject = dataclasses.replace(subject_of(name), share=share)
    assert failures(subject) == {}


WRITE = "self._bus.writeto(self._address, self._command)"
RAISE = 'raise TransferError(sentence, device="SHT31", address=self._address, errno=None)'
SET_UP_ONCE = """if not hasattr(self, "ready"):
            self._bus.writeto(self._address, bytes([0x30, 0xA2]))
            self.ready = True"""
MISTAKES = {
    "no checksum": ({"if crc8(part[:2]) != part[2]": "if False"}, "fault bad_crc", "it gave a reading: air"),
    "wrong formula": ({"175 *": "315 *"}, "reads the truth", "air_temperature is 75"),
    "talks in its constructor": (
        {'bus.label(address, "SHT31")': "bus.writeto(address, self._command)"},
        "opens without its device",
        "it raised DeviceMissingError: the device at 0x44",
    ),
    "an error of its own": ({RAISE: "raise KeyError(sentence)"}, "fault bad_crc", "it raised KeyError: "),
    "invents a reading": (
        {WRITE: f"try:\n            {WRITE}\n        except OSError:\n            return Sample(20, 50)"},
        "fault absent",
        "it gave a reading: air_temperature 20, air_humidity 50",
    ),
    "too slow": ({"self._sleep(self._lasts_s)": "self._sleep(3)"}, "reads the truth", "one read takes 3 s"),
    "sets up once": (
        {WRITE: f"{SET_UP_ONCE}\n        {WRITE}"},
        "power lost for a minute",
        "it has no reading 120 s after the fault",
    ),
    "a calibration without effect": (
        {
            "import DriverOption": "import CalibrationKind, DriverOption",
            "    def _word": "    def correct(self, reference):\n        pass\n\n    def _word",
            "    api=1,": "    api=1,\n    calibrations=(CalibrationKind('correct', 'correct', '', 5.0, "
            "reference_range=(30.0, 40.0), unit='degC'),),",
        },
        "calibration correct",
        "after a calibration to 30",
    ),
    "no number": ({"return Sample(175 *": "return Sample('20', 1) if self else (175 *"}, "reads the truth",
                  "air_temperature is '20', and no number"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_the_trial_that_names_it(mistake, example):
    replacements, trial, words = MISTAKES[mistake]
    chip = {}
    if mistake == "sets up once":  # a chip that needs a set-up after its power-on
        chip = {
            "sht31_example_chip": {
                "self._ready_at = air, monotonic, None": "self._ready_at = air, monotonic, None\n"
                "        self.is_set_up = False",
                "lasts_s = dict(": "if data == b'\\x30\\xa2':\n            self.is_set_up = True\n"
                "            return\n        if not self.is_set_up:\n            raise NoAcknowledgeError\n"
                "        lasts_s = dict(",
            }
        }
    found = failures(example(sht31_example=replacements, **chip))
    assert words in found.get(trial, ""), found
