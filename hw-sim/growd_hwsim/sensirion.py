"""What Sensirion's sensors on I2C have in common: words of two bytes, each with a CRC-8.

Source: "Interface Description Sensirion SCD30 Sensor Module", 1.1.2 and 1.1.3.
"""

from __future__ import annotations

from growd_hwsim.chip import Measurement
from growd_hwsim.i2c import NoAcknowledgeError

FULL_WORD = 0xFFFF


def _crc8_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1 ^ 0x31 if byte & 0x80 else byte << 1) & 0xFF
    return byte


_CRC8 = bytes(map(_crc8_of, range(256)))


def crc8(data: bytes) -> int:
    """CRC-8 with polynomial 0x31 and initial value 0xFF."""
    crc = 0xFF
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def with_crcs(words: bytes) -> bytes:
    """Each two bytes followed by their CRC-8."""
    pairs = (words[i : i + 2] for i in range(0, len(words), 2))
    return b"".join(pair + bytes([crc8(pair)]) for pair in pairs)


def decoded(data: bytes) -> tuple[int, int | None]:
    """Command and argument; `NoAcknowledgeError` for another length or a wrong CRC."""
    if len(data) == 2:  # noqa: PLR2004  a command word alone
        return int.from_bytes(data, "big"), None
    if len(data) == 5 and crc8(data[2:4]) == data[4]:  # noqa: PLR2004  with argument and CRC
        return int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    raise NoAcknowledgeError


def temperature_word(degc: float) -> int:
    """Degrees Celsius as Sensirion's sensors send them: -45 + 175 word / 65535."""
    return round(min(max((degc + 45.0) / 175.0, 0.0), 1.0) * FULL_WORD)


def humidity_word(percent: float) -> int:
    """Percent relative humidity as SCD4x and SHT3x send them."""
    return round(min(max(percent / 100.0, 0.0), 1.0) * FULL_WORD)


TEMPERATURE_FRAME = Measurement(
    6,
    175.0,
    lambda answer: int.from_bytes(answer[:2], "big") * 175.0 / FULL_WORD,
    lambda answer, above: with_crcs(temperature_word(above - 45.0).to_bytes(2, "big")) + answer[3:],
    "degC",
)
"""The answer of SHT3x and SHT4x: the temperature (counted from -45 degC), and the humidity."""
