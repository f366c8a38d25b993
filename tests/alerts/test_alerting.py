"""Alerts as built from the configuration: services, saved state, and changes while growd runs."""

from __future__ import annotations

import asyncio
import logging
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
from growd_alerts.part import opened
from support.checkout import ROOT
from support.clock import ManualClock
from support.mail import address_file, mail_server
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


def mail(folder, port, **options):
    return Notify(**{"name": "mail", "kind": "apprise", "url_file": address_file(folder, port)} | options)


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

    async def until(self, condition):
        await self.clock.until(condition)


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


async def test_a_message_that_could_not_be_sent_before_a_restart_is_sent_after_it(tmp_path, own_port):
    port = own_port
    async with daemon(tmp_path, mail(tmp_path, port)) as growd:  # where no mail server is
        await growd.fail()
        await growd.until(lambda: bool(growd.information()["channels"][0]["error"]))
        (channel,) = growd.information()["channels"]
        assert (channel["state"], channel["waiting"]) == ("failing", 1)
        (warning,) = [each for each in told(growd.status.snapshot(), "warning") if "alerts" in each]
        assert warning == f"mail: can't send alerts on the channel mail: {channel['error']}"
    async with mail_server(port=port) as box, daemon(tmp_path, mail(tmp_path, port)) as growd:
        (message,) = await box.arrived(1)
        assert message["Subject"].endswith("warning: the device scd30_1 has failed: no answer")
        assert message.get_content().startswith("This message is late: it could not be sent since 2023-11-1")
        await growd.recover()
        assert "ended: the device scd30_1" in (await box.arrived(2))[1]["Subject"]


async def test_a_silent_mail_server_is_retried(tmp_path, monkeypatch):
    monkeypatch.setattr("growd_alerts.dispatch.TIMEOUT_S", 3.0)
    async with mail_server() as box, daemon(tmp_path, mail(tmp_path, box.port)) as growd:
        box.silent = True
        await growd.fail()
        await growd.until(lambda: "within 3 s" in growd.information()["channels"][0]["error"])
        box.silent = False
        monkeypatch.setattr("growd_alerts.dispatch.TIMEOUT_S", 30.0)  # for a machine that is busy
        assert (await growd.call("alerts/test"))["success"] is True  # and so the rest need not wait
        assert [message["Subject"].rpartition("]")[2] for message in await box.arrived(2)] == [
            " test message",
            " warning: the device scd30_1 has failed: no answer",
        ]


async def test_rules_and_channels_change_while_it_runs(tmp_path):
    async with mail_server() as box, daemon(tmp_path, mail(tmp_path, box.port)) as growd:
        wrong = mail(tmp_path, box.port, url_file=str(tmp_path / "none"))
        with pytest.raises(ConfigError, match=r"\[notify\] url_file: mail: .*none can't be read: No such"):
            await growd.reconfigure(Config(alert=(FAILED,), notify=(wrong,)))
        await growd.fail()  # nothing has changed
        await box.arrived(1)
        await growd.until(lambda: growd.information()["channels"][0]["sent"] == 1)
        other = AlertOptions(name="interlock", kind="interlock")
        await growd.reconfigure(Config(alert=(other,), notify=(mail(tmp_path, box.port),)))
        await growd.clock.settle()
        assert "its rule is gone from the configuration" in (await box.arrived(2))[1].get_content()
        assert growd.information()["alerts"] == []
        await growd.until(lambda: growd.information()["channels"][0]["waiting"] == 0)
        renamed = AlertOptions(name="other", kind="device_failed", for_s=0.0)
        await growd.reconfigure(Config(alert=(renamed,), notify=(mail(tmp_path, box.port, name="post"),)))
        await growd.clock.settle()
        assert [each["name"] for each in growd.information()["channels"]] == ["post"]
        await growd.clock.advance(60)
        (alert,) = growd.information()["alerts"]
        assert alert["rule"] == "other"
        assert "warning: the device scd30_1" in (await box.arrived(3))[-1]["Subject"]


async def test_a_secret_is_one_line_of_text_in_a_protected_file(tmp_path, said):
    secret = tmp_path / "secret"
    for content, mode in ((b"", 0o600), (b"a\nb\n", 0o600), (b"\xff", 0o600), (b"secret\n", 0o644)):
        secret.write_bytes(content)
        secret.chmod(mode)
        with said.raises(ConfigError):
            async with daemon(tmp_path, mail(tmp_path, 1, url_file=str(secret))):
                pass


async def test_a_test_message_reports_the_result_of_each_channel_and_a_rule_may_have_its_own(
    tmp_path, own_port
):
    rule = AlertOptions(name="failed", kind="device_failed", for_s=0.0, channels=("mail",))
    async with mail_server() as box, mail_server() as other:
        channels = (
            mail(tmp_path, box.port),
            mail(tmp_path, own_port, name="gone"),
            mail(tmp_path, other.port, name="other"),
        )
        async with daemon(tmp_path, *channels, rules=(rule,)) as growd:
            answer = await growd.call("alerts/test")
            assert answer["success"] is False
            assert answer["message"].startswith("gone: ")
            assert [result["taken"] for result in answer["results"]] == [True, False, True]
            assert growd.information()["channels"][0]["state"] == "ok"
            assert await growd.call("alerts/test", channel="mail") == {
                "success": True,
                "message": "sent a test message on 1 channel",
                "results": [{"channel": "mail", "taken": True, "error": ""}],
            }
            refused = await growd.call("alerts/test", channel="nobody")
            assert refused["message"] == 'there is no channel "nobody"; the channels are mail, gone, other'
            await growd.fail()
            assert "warning: the device scd30_1" in (await box.arrived(3))[2]["Subject"]
            await growd.until(lambda: growd.information()["channels"][0]["waiting"] == 0)
            assert len(other.messages) == 1


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


async def test_a_channel_without_rules_uses_the_default_rules(tmp_path):
    async with daemon(tmp_path, rules=()) as growd:
        assert not growd.clock._sleepers  # without a channel, too, nothing wakes up
        assert growd.information()["channels"] == []
    async with mail_server() as box, daemon(tmp_path, mail(tmp_path, box.port), rules=()) as growd:
        for _ in range(3):
            await growd.fail()
        await box.arrived(1)
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
