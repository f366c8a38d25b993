"""Delivery on one channel: groups, retries and the limit per hour."""

from contextlib import asynccontextmanager

import pytest

from growd.config.alerts import Notify
from growd_alerts.backlog import Backlog
from growd_alerts.dispatch import HOUR_S, MOST_PER_HOUR, PAUSES, Delivery, DeliveryError
from growd_alerts.messages import Alert
from growd_alerts.rules import AlertPhase
from support.clock import ManualClock
from support.running import running


class Line:
    """A channel that takes messages, or does not."""

    def __init__(self):
        self.taken = []
        self.tries = []
        self.error = None

    async def send(self, batch):
        self.tries.append(self.clock.monotonic())
        if self.error is not None:
            raise self.error
        self.taken.append(batch)

    def sent(self):
        return [[(each.alert.id, str(each.phase)) for each in batch.entries] for batch in self.taken]


def alert(name):
    return Alert(name, "r", "device_failed", "warning", name, f"{name} failed", 1_000.0, 1_100.0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Messages leave without a wait for further alerts."""
    monkeypatch.setattr("growd_alerts.dispatch.GROUP_S", 0.0)


def delivery_on(line, **options):
    clock = line.clock = ManualClock()
    settings = Notify(**{"name": "hook", "kind": "apprise"} | options)
    return Delivery(settings, line.send, Backlog(), clock=clock, wall=clock.time, on_change=lambda: None)


@asynccontextmanager
async def delivering(**options):
    line = Line()
    delivery = delivery_on(line, **options)
    async with running(line.clock, delivery):
        yield delivery, line, line.clock


async def test_alerts_at_the_same_time_share_a_message(monkeypatch):
    monkeypatch.setattr("growd_alerts.dispatch.GROUP_S", 5.0)
    async with delivering() as (delivery, line, clock):
        delivery.put(AlertPhase.START, alert("a"))
        await clock.advance(3)
        delivery.put(AlertPhase.START, alert("b"))
        assert line.taken == []
        await clock.advance(3)
        assert line.sent() == [[("a", "start"), ("b", "start")]]
        delivery.put(AlertPhase.END, alert("a"))
        await clock.advance(5)
        assert line.sent()[1:] == [[("a", "end")]]


async def test_one_message_reports_everything_after_a_long_outage(caplog, monkeypatch):
    monkeypatch.setattr("growd_alerts.dispatch.GROUP_S", 5.0)
    async with delivering() as (delivery, line, clock):
        line.error = OSError("no route to host")
        failed_at = clock.time() + 5
        for name in ("a", "b", "c"):
            delivery.put(AlertPhase.START, alert(name))
            await clock.advance(3_600)
        delivery.put(AlertPhase.END, alert("b"))
        pauses = [later - earlier for earlier, later in zip(line.tries, line.tries[1:], strict=False)]
        assert pauses[0] <= 5 + 5
        assert all(PAUSES.longest_s / 2 <= pause - 5 <= PAUSES.longest_s for pause in pauses[8:])
        assert delivery.information()["error"] == "no route to host"
        line.error = None
        await clock.advance(PAUSES.longest_s + 5)
        assert line.sent() == [[("a", "start"), ("b", "over"), ("c", "start")]]
        assert line.taken[0].late_since == failed_at
        assert delivery.information() == {
            "name": "hook", "kind": "apprise", "state": "ok", "since": 0.0, "error": "",
            "sent": 1, "waiting": 0, "left_out": 0,
        }  # fmt: skip
        said = [record.message for record in caplog.records if record.name == "growd_alerts.dispatch"]
    assert len(said) == 2  # the begin and the end of an outage


async def test_a_success_resets_the_retry_delay():
    async with delivering() as (delivery, line, clock):
        line.error = OSError("no route to host")
        delivery.put(AlertPhase.START, alert("a"))
        await clock.advance(3_600)
        line.error = None
        await clock.advance(PAUSES.longest_s)
        assert line.sent() == [[("a", "start")]]
        line.error = OSError("no route to host")
        delivery.put(AlertPhase.END, alert("a"))
        await clock.settle()
        line.error = None
        await clock.advance(PAUSES.first_s)
        assert line.sent()[1:] == [[("a", "end")]]


async def test_an_exception_in_a_channel_loses_no_alert():
    line = Line()
    line.error = RuntimeError("a mistake")
    delivery = delivery_on(line)
    delivery.put(AlertPhase.START, alert("a"))
    with pytest.raises(RuntimeError, match="a mistake"):
        await delivery.run()
    line.error = None
    async with running(line.clock, delivery):
        assert line.sent() == [[("a", "start")]]


async def test_a_restored_connection_is_used_at_once():
    async with delivering() as (delivery, line, clock):
        line.error = DeliveryError("535 wrong password")
        delivery.put(AlertPhase.START, alert("a"))
        await clock.settle()
        line.error = None
        assert await delivery.test() == ""
        await clock.settle()
        assert line.sent() == [[], [("a", "start")]]
        assert line.taken[0].is_test


async def test_alerts_above_the_hourly_limit_wait_and_share_a_message():
    async with delivering() as (delivery, line, clock):
        for number in range(MOST_PER_HOUR):
            delivery.put(AlertPhase.START, alert(f"a{number}"))
            await clock.advance(60)
        for name in ("c", "d"):
            delivery.put(AlertPhase.START, alert(name))
            await clock.advance(60)
        assert len(line.sent()) == MOST_PER_HOUR
        await clock.advance(HOUR_S)
        assert line.sent()[MOST_PER_HOUR:] == [[("c", "start"), ("d", "start")]]
