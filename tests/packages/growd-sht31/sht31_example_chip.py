"""A simulated SHT31. Source: SHT3x-DIS datasheet, sections 4.3, 4.12 and 4.13."""

from sht31_example import MEASURE, crc8

from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import FAULTS, I2CSlave, NoAcknowledgeError


def word(share):
    data = round(min(max(share, 0.0), 1.0) * 0xFFFF).to_bytes(2)
    return data + bytes([crc8(data)])


class SimulatedSht31(I2CSlave):
    name = "sht31_example"
    measurement = Measurement(
        6,
        0xFFFF,
        lambda answer: int.from_bytes(answer[:2]),
        lambda answer, count: word(count / 0xFFFF) + answer[3:],
    )
    faults = (*FAULTS, "bad_crc", "wrong_order")

    def __init__(self, air, monotonic, *, seed=0):
        super().__init__()
        self._air, self._monotonic, self._ready_at = air, monotonic, None

    def on_write(self, data):
        lasts_s = dict(MEASURE.values()).get(data)
        if lasts_s is None:
            raise NoAcknowledgeError
        self._ready_at = self._monotonic() + lasts_s

    def on_read(self, length):
        if self._ready_at is None or self._monotonic() < self._ready_at - 1e-9:
            raise NoAcknowledgeError
        self._ready_at, air = None, self._air()
        return word((air.temperature_degc + 45) / 175) + word(air.humidity_percent / 100)
