"""The benchmarks of streams and of growth count right. How long things take is never looked at here."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import time
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import growth
import pytest
from curves import Curve, Panel, draw
from growth import Costs
from measuring import Options, Process, server
from stream_client import Delivery, Listeners
from streams import cost

from support.stand_in import StandIn

pytestmark = pytest.mark.bench

if TYPE_CHECKING:
    from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(*numbers: int) -> bytes:
    lines = b"".join(b'{"value":1,"time":%d,"number":%d}\n' % (number, number) for number in numbers)
    return b"%x\r\n%b\r\n" % (len(lines), lines)


async def counted(*streams: bytes) -> Delivery:
    """What `Listeners` counts when each of them is sent one of these, a few bytes at a time."""
    left = list(streams)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = HEAD + left.pop()
        await reader.readuntil(b"\r\n\r\n")
        for begin in range(0, len(data), 7):
            writer.write(data[begin : begin + 7])
            await writer.drain()
        await reader.read()
        writer.close()

    def listen(port: int) -> Delivery:
        with Listeners(Process(os.getpid(), port), "/", len(streams)) as listeners:
            listeners.settle()
            while listeners.delivered(0, time.time()).published < 10:
                listeners.listen(0.01)
            return listeners.delivered(0, time.time())

    async with StandIn(answer) as server:
        return await asyncio.to_thread(listen, server.port)


async def test_messages_are_counted_on_each_stream():
    both = chunk(1) + chunk(2, 3, 4, 5, 6) + chunk(7, 8, 9, 10)
    delivery = await counted(both, both)
    assert (delivery.published, delivery.lost, len(delivery.ages_s)) == (10, 0, 20)
    assert delivery.seconds == 10  # of the clock that stamps the messages
    assert delivery.rate == 2


async def test_a_message_that_one_stream_did_not_get_is_lost_and_one_that_came_twice_is_no_substitute():
    delivery = await counted(
        chunk(*range(1, 11)), chunk(1, 2, 3, 4) + chunk(6, 7, 8, 9, 10), chunk(1, 2, 3, 4, 5, 6, 7, 7, 8, 10)
    )
    assert delivery.lost == 1 + 2


def test_growd_loses_no_message_on_its_streams():
    with server("core", "--publish", 20) as growd:
        taken = [cost(growd, 50, 0.25)]
        while len(taken) < 2 or not any(each.delivery.published for each in taken):
            taken.append(cost(growd, 50, 0.25))
    for each in taken:
        assert each.delivery.lost == 0
        assert len(each.delivery.ages_s) == 50 * each.delivery.published


def test_sensors_are_read_over_real_drivers():
    with server("many_sensors", "--sensors", 3) as growd:
        assert growth.readings_of(growd) >= 3


def test_a_row_compares_the_most_with_one():
    row = Costs("topics", "GET one", "µs", {1: 40.0, 10: 41.0, 100: 60.0}, growth.LEVEL).row()
    assert (row.growd, row.reference, row.ratio, row.met) == (60.0, 40.0, 1.5, False)
    assert row.target == "at most 1.25 times it"
    linear = Costs("topics", "GET the list", "µs", {1: 40.0, 100: 3900.0}, 100).row()
    assert (linear.target, linear.met) == ("no faster than linearly", True)


def test_without_matplotlib_it_says_so_before_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    options = Options(1, 0.0, argparse.Namespace(figure=tmp_path / "growth.svg"))
    with pytest.raises(SystemExit, match="matplotlib, which draws the figure, is not installed"):
        growth.measure(options)


def test_the_figure_shows_every_curve_in_the_colour_of_its_reader(tmp_path: Path):
    pytest.importorskip("matplotlib")
    panels = [
        Panel("Memory", "of each", "RSS, MB", [Curve("topics", {1: 40, 1000: 44}), Curve("streams", {1: 41})])
    ]
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        draw(file, panels, "a small machine")
    svg = files[0].read_text()
    assert svg == files[1].read_text()
    texts = {element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314  ours
    assert {"Memory", "of each", "RSS, MB", "topics", "streams", "1,000", "a small machine"} <= texts
    assert "prefers-color-scheme:dark" in svg
