"""Sensirion SHT31: temperature and humidity. Source: SHT3x-DIS datasheet, sections 4.3, 4.12 and 4.13."""

from typing import NamedTuple

from growd_drivers.errors import TransferError
from growd_drivers.kinds import DriverOption, SensorKind

MEASURE = {"high": (b"\x24\x00", 0.0155), "medium": (b"\x24\x0b", 0.0065), "low": (b"\x24\x16", 0.0045)}


class Sample(NamedTuple):
    temperature_degc: float
    humidity_percent: float


class Sht31:
    def __init__(self, bus, *, sleep, address, repeatability):
        self._bus, self._sleep, self._address = bus, sleep, address
        self._command, self._lasts_s = MEASURE[repeatability]
        bus.label(address, "SHT31")

    def read(self):
        self._bus.writeto(self._address, self._command)
        self._sleep(self._lasts_s)
        answer = bytearray(6)
        self._bus.readfrom_into(self._address, answer)
        return Sample(175 * self._word(answer[:3]) - 45, 100 * self._word(answer[3:]))

    def _word(self, part):
        if crc8(part[:2]) != part[2]:
            sentence = f"{self._bus.name_of(self._address)} sent a wrong checksum"
            raise TransferError(sentence, device="SHT31", address=self._address, errno=None)
        return int.from_bytes(part[:2]) / 0xFFFF


def crc8(data):
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x31 if crc & 0x80 else crc << 1) & 0xFF
    return crc


KIND = SensorKind(
    "SHT31",
    "sht31_example:Sht31",
    {"temperature_degc": "air_temperature", "humidity_percent": "air_humidity"},
    addresses=(0x44, 0x45),
    own_options=(
        DriverOption("repeatability", str, "How precisely it measures.", "high", choices=(*MEASURE,)),
    ),
    chip="sht31_example_chip:SimulatedSht31",
    api=1,
)
