"""Alerts as built from the configuration: services, saved state, and changes while growd runs."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, get_args
from unittest.mock import AsyncMock

import pytest

from growd.bus import Bus
from growd.bus.errors import NotKeptError
from growd.config import Config, ConfigError, load
from growd.config.alerts import AlertOptions, Kind, Notify
from growd.control.health import Health
from growd.control.topics import declare_environment
from growd.status.status_node import StatusNode
from growd.store.errors import LocalStoreError
from growd.store.local import LocalStore
from growd_alerts.defaults import DEFAULT_ALERTS
from growd_alerts.dispatch import DeliveryError
from growd_alerts.part import opened
from support.checkout import ROOT
from support.clock import ManualClock
from support.program import PATIENCE_S
from support.refusals import check_config
from support.status import told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.long

ENV = "environment_1"
FAILED = AlertOptions(name="failed", kind="device_failed", for_s=0.0, repeat_s=3_600.0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Messages leave without a wait for further alerts."""
    monkeypatch.setattr("growd_alerts.dispatch.GROUP_S", 0.0)


def channel(folder, name="mail", **options):
    """A channel whose address is in a file of its own."""
    file = folder / name
    file.write_text(f"somewhere://{name}\n")
    file.chmod(0o600)
    return Notify(**{"name": name, "kind": "apprise", "url_file": str(file)} | options)


class Services:
    """Stands for apprise: the subjects and texts that each channel has sent, and which channels fail."""

    def __init__(self):
        self.sent = defaultdict(list)
        self.failing = set()
        self.is_silent = False

    def alerts(self, address, sender, _ca_file):
        async def send(batch):
            if self.is_silent:
                await asyncio.Event().wait()
            name = address.partition("://")[2]
            if name in self.failing:
                raise DeliveryError("no route to host")
            self.sent[name].append((sender.subject(batch), sender.text(batch)))

        return SimpleNamespace(send=send)


@pytest.fixture
def services(monkeypatch):
    services = Services()
    monkeypatch.setattr("growd_alerts.channels.AppriseAlerts", services.alerts)
    return services


class Daemon:
    """Alerts on a bus with one device."""

    reconfigure: Callable[[Config], Awaitable[None]]

    def __init__(self, clock, bus, status):
        self.clock = clock
        self.status = status
        self.bus = bus
        self._device = Health(bus.node(f"{ENV}/samplers/scd30_1"), ENV, "scd30_1", clock)

    async def fail(self):
        """Let the device fail for a while."""
        self._device.failed("no answer")
        await self.clock.advance(60)

    async def recover(self):
        self._device.succeeded()
        await self.clock.advance(60)

    async def call(self, service, **arguments):
        return await self.bus.services.get(service).call(arguments)

    def information(self):
        return self.bus.find_node("alerts").information()

    def channel(self):
        """The state of the first channel."""
        return self.information()["channels"][0]


@asynccontextmanager
async def daemon(path, *channels, rules=(FAILED,)):
    clock = ManualClock()
    local = await LocalStore.open(path / "growd.sqlite3")
    try:
        bus = Bus(clock)
        declare_environment(bus, ENV, ())
        status = StatusNode(bus, [ENV])
        growd, config = Daemon(clock, bus, status), Config(alert=rules, notify=channels)
        around = SimpleNamespace(
            present=lambda: config, bus=bus, local=local, device=local.device, status=status, mqtt=None
        )
        around.offer_reload = lambda *_, apply: setattr(growd, "reconfigure", apply)
        async with opened(around):
            await clock.settle()
            yield growd
    finally:
        await local.close()


async def test_a_message_that_could_not_be_sent_before_a_restart_is_sent_after_it(tmp_path, services):
    services.failing = {"mail"}
    async with daemon(tmp_path, channel(tmp_path)) as growd:
        await growd.fail()
        assert (growd.channel()["state"], growd.channel()["waiting"]) == ("failing", 1)
        (warning,) = [each for each in told(growd.status.snapshot(), "warning") if "alerts" in each]
        assert warning == "mail: can't send alerts on the channel mail: no route to host"
    services.failing.clear()
    async with daemon(tmp_path, channel(tmp_path)) as growd:
        await growd.clock.until(lambda: services.sent["mail"])
        ((subject, text),) = services.sent["mail"]
        assert subject.endswith("warning: the device scd30_1 has failed: no answer")
        assert text.startswith("This message is late: it could not be sent since 2023-11-1")
        await growd.recover()
        assert "ended: the device scd30_1" in services.sent["mail"][1][0]


async def test_a_silent_service_is_retried(tmp_path, services, monkeypatch):
    monkeypatch.setattr("growd_alerts.dispatch.TIMEOUT_S", 0.01)
    async with daemon(tmp_path, channel(tmp_path)) as growd:
        services.is_silent = True
        await growd.fail()
        await growd.clock.until(lambda: "within 0.01 s" in growd.channel()["error"])
        services.is_silent = False
        assert (await growd.call("alerts/test"))["success"] is True  # and so the rest need not wait
        await growd.clock.until(lambda: len(services.sent["mail"]) == 2)
        assert [subject.rpartition("]")[2] for subject, _ in services.sent["mail"]] == [
            " test message",
            " warning: the device scd30_1 has failed: no answer",
        ]


async def test_rules_and_channels_change_while_it_runs(tmp_path, services):
    async with daemon(tmp_path, channel(tmp_path)) as growd:
        wrong = channel(tmp_path, url_file=str(tmp_path / "none"))
        with pytest.raises(ConfigError, match=r"\[notify\] url_file: mail: .*none can't be read: No such"):
            await growd.reconfigure(Config(alert=(FAILED,), notify=(wrong,)))
        await growd.fail()  # nothing has changed
        assert growd.channel()["sent"] == 1
        other = AlertOptions(name="interlock", kind="interlock")
        await growd.reconfigure(Config(alert=(other,), notify=(channel(tmp_path),)))
        await growd.clock.settle()
        assert "its rule is gone from the configuration" in services.sent["mail"][1][1]
        assert (growd.information()["alerts"], growd.channel()["waiting"]) == ([], 0)
        renamed = AlertOptions(name="other", kind="device_failed", for_s=0.0)
        await growd.reconfigure(Config(alert=(renamed,), notify=(channel(tmp_path, "post"),)))
        await growd.clock.settle()
        assert [each["name"] for each in growd.information()["channels"]] == ["post"]
        await growd.clock.advance(60)
        (alert,) = growd.information()["alerts"]
        assert alert["rule"] == "other"
        ((subject, _),) = services.sent["post"]
        assert "warning: the device scd30_1" in subject


async def test_a_secret_is_one_line_of_text_in_a_protected_file(tmp_path, said):
    secret = tmp_path / "secret"
    for content, mode in ((b"", 0o600), (b"a\nb\n", 0o600), (b"\xff", 0o600), (b"secret\n", 0o644)):
        secret.write_bytes(content)
        secret.chmod(mode)
        with said.raises(ConfigError):
            async with daemon(tmp_path, channel(tmp_path, url_file=str(secret))):
                pass


async def test_a_test_message_reports_the_result_of_each_channel_and_a_rule_may_have_its_own(
    tmp_path, services
):
    rule = AlertOptions(name="failed", kind="device_failed", for_s=0.0, channels=("mail",))
    services.failing = {"gone"}
    channels = [channel(tmp_path, name) for name in ("mail", "gone", "other")]
    async with daemon(tmp_path, *channels, rules=(rule,)) as growd:
        answer = await growd.call("alerts/test")
        assert (answer["success"], answer["message"]) == (False, "gone: no route to host")
        assert [result["taken"] for result in answer["results"]] == [True, False, True]
        assert growd.channel()["state"] == "ok"
        assert await growd.call("alerts/test", channel="mail") == {
            "success": True,
            "message": "sent a test message on 1 channel",
            "results": [{"channel": "mail", "taken": True, "error": ""}],
        }
        refused = await growd.call("alerts/test", channel="nobody")
        assert refused["message"] == 'there is no channel "nobody"; the channels are mail, gone, other'
        await growd.fail()
        assert "warning: the device scd30_1" in services.sent["mail"][2][0]
        assert (growd.channel()["waiting"], len(services.sent["other"])) == (0, 1)


async def test_an_alert_is_acknowledged_by_its_id_or_its_rule(tmp_path, monkeypatch):
    async with daemon(tmp_path) as growd:
        assert (await growd.call("alerts/acknowledge"))["message"] == "no alert is open"
        await growd.fail()
        (alert,) = growd.information()["alerts"]
        assert alert["acknowledged"] is False
        answer = await growd.call("alerts/acknowledge", alert=alert["id"], by="Ada")
        assert answer == {"success": True, "message": "1 alert acknowledged"}
        assert growd.information()["alerts"][0]["acknowledged_by"] == "Ada"
    async with daemon(tmp_path) as growd:
        assert growd.information()["alerts"][0]["acknowledged_by"] == "Ada"
        assert (await growd.call("alerts/acknowledge", alert="failed"))["success"] is True
        await growd.bus.services.get("alerts/acknowledge").call({}, who="127.0.0.1")
        assert growd.information()["alerts"][0]["acknowledged_by"] == "127.0.0.1"
        monkeypatch.setattr(LocalStore, "save_state", AsyncMock(side_effect=LocalStoreError("full")))
        with pytest.raises(NotKeptError):
            await growd.call("alerts/acknowledge")


async def test_an_unreadable_saved_state_does_not_prevent_the_start(tmp_path, caplog):
    local = await LocalStore.open(tmp_path / "growd.sqlite3")
    await local.save_state("alerts", {"open": 3})
    await local.close()
    async with daemon(tmp_path) as growd:
        assert growd.information()["alerts"] == []
    assert "can't read the open alerts of the last run" in caplog.text


async def test_a_full_disk_is_logged_once_and_the_open_alerts_are_saved_later(tmp_path, monkeypatch, caplog):
    save, problems, kept = LocalStore.save_state, [], asyncio.Event()

    async def full(local, key, state):
        if len(problems) < 3:
            problems.append(growd.information()["problems"])
            raise OSError(28, "No space left on device")
        await save(local, key, state)
        kept.set()

    monkeypatch.setattr("growd_alerts.part._RETRY_S", 0.0)
    monkeypatch.setattr(LocalStore, "save_state", full)
    async with daemon(tmp_path) as growd:
        await growd.fail()
        await asyncio.wait_for(kept.wait(), PATIENCE_S)
        assert growd.information()["problems"] == []
    text = "open alerts cannot be saved and are lost if growd ends: [Errno 28] No space left on device"
    assert [each["text"] for each in problems[-1]] == [text]
    assert caplog.text.count("can't save the open alerts: [Errno 28] No space left on device") == 1


async def test_a_channel_without_rules_uses_the_default_rules(tmp_path, services):
    async with daemon(tmp_path, rules=()) as growd:
        assert not growd.clock._sleepers  # without a channel, too, nothing wakes up
        assert growd.information()["channels"] == []
    async with daemon(tmp_path, channel(tmp_path), rules=()) as growd:
        for _ in range(3):
            await growd.fail()
        assert services.sent["mail"]
        assert growd.information()["alerts"][0]["rule"] == "device-failed"
    assert len({rule.name for rule in DEFAULT_ALERTS}) == len(DEFAULT_ALERTS)


async def test_alerts_are_on_the_bus_and_in_the_log(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "growd_alerts"):
        async with daemon(tmp_path) as growd:
            await growd.fail()
            await growd.recover()
            last = growd.bus.topics.get("alerts/event").last
    assert last is not None
    assert '"phase":"end"' in last.value
    said = [record.message for record in caplog.records if record.name.startswith("growd_alerts")]
    assert said == [
        "alert failed: the device scd30_1 has failed: no answer",
        "alert failed has ended: the device scd30_1 is ok",
    ]


def test_the_configuration_in_the_documentation_is_valid(tmp_path):
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    file = tmp_path / "growd.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    config = load(file)
    check_config(config)
    assert {channel.kind for channel in config.notify} == {"apprise", "mqtt"}
    assert all(f"| `{kind}` |" in page for kind in get_args(Kind))
    assert all(f"`{rule.name}`" in page for rule in DEFAULT_ALERTS)
