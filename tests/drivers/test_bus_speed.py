import pytest

from growd_drivers.bus_speed import bus_speed_hz


@pytest.mark.parametrize(
    ("cell", "speed"),
    [
        (b"\x00\x01\x86\xa0", 100_000),
        (b"\x00\x00\xc3\x50", 50_000),
        (b"\x00\x00\x00\x00", None),
        (b"", None),
        (b"\x00\x00\x00\x00\x00\x00\xc3\x50", None),
    ],
)
def test_the_speed_is_a_cell_of_the_device_tree(tmp_path, cell, speed):
    node = tmp_path / "node"
    node.mkdir()
    (node / "clock-frequency").write_bytes(cell)
    (tmp_path / "i2c-1").mkdir()
    (tmp_path / "i2c-1" / "of_node").symlink_to(node)
    assert bus_speed_hz(1, adapters=tmp_path) == speed
    (tmp_path / "i2c-2").mkdir()
    assert bus_speed_hz(2, adapters=tmp_path) is bus_speed_hz(3, adapters=tmp_path) is None
