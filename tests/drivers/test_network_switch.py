"""Switches in the network, over real HTTP."""

import asyncio
from functools import partial
from urllib.parse import unquote

import pytest

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.network_switch import (
    DeviceLogin,
    HttpSwitch,
    MqttOutput,
    ShellyGen1,
    ShellyGen2,
    Tasmota,
    TwoAddresses,
    ask_http,
    pulse_time,
    shelly_messages,
    tasmota_messages,
)
from growd_hwsim.network_switches import SimulatedSwitch
from support.clock import ManualClock
from support.switches import served
from support.waiting import PATIENCE_S

TIMER_S = 60.0

PROTOCOLS = {"shelly_gen1": ShellyGen1, "shelly_gen2": ShellyGen2, "tasmota": Tasmota}
LOGIN = DeviceLogin("admin", "to:p&s cret")
asking = partial(ask_http, limit_s=PATIENCE_S)


async def opened(device, protocol, *, relay=1, ask=asking, **options):
    options = {"timer_s": TIMER_S, **options}
    made = PROTOCOLS[protocol](device.url, relay)
    return await asyncio.to_thread(partial(HttpSwitch, made, ask, name="heater", **options))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_relay_is_switched_also_after_a_restart_and_safe_at_the_begin_and_the_end(protocol):
    async with served(protocol) as device:
        await asyncio.to_thread(device.switch.get, first_on(protocol))
        assert device.switch.is_on(1)
        switch = await opened(device, protocol)
        assert not device.switch.is_on(1)
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(1)
        assert not device.switch.is_on(0)
        device.switch.restart()
        assert not device.switch.is_on(1)
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(1)
        await asyncio.to_thread(switch.write, 0.0, TIMER_S)
        assert not device.switch.is_on(1)
        await asyncio.to_thread(switch.write, 0.5, TIMER_S)
        await asyncio.to_thread(switch.close)
        assert not device.switch.is_on(1)


def first_on(protocol):
    """The request of a person who switched the relay on."""
    return {
        "shelly_gen1": "/relay/1?turn=on",
        "shelly_gen2": "/rpc/Switch.Set?id=1&on=true",
        "tasmota": "/cm?cmnd=Power2%20On",
    }[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_relay_that_nobody_commands_any_more_becomes_safe_by_its_timer(protocol):
    async with served(protocol) as device:
        switch = await opened(device, protocol)
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        await device.clock.advance(45)
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)  # starts it again
        await device.clock.advance(59)
        assert device.switch.is_on(1)
        await device.clock.advance(2)
        assert not device.switch.is_on(1)


@pytest.mark.parametrize("protocol", ["shelly_gen1", "shelly_gen2"])
async def test_an_output_that_is_safe_when_on_is_switched_on_by_the_timer(protocol):
    async with served(protocol) as device:
        switch = await opened(device, protocol, safe_on=True)
        assert device.switch.is_on(1)
        await asyncio.to_thread(switch.write, 0.0, TIMER_S)
        assert not device.switch.is_on(1)
        await device.clock.advance(61)
        assert device.switch.is_on(1)


@pytest.mark.parametrize(("protocol", "scheme"), [("shelly_gen2", "digest"), ("shelly_gen1", "basic")])
async def test_a_login_is_sent_as_the_device_asks_for_it(protocol, scheme):
    async with served(protocol, login=LOGIN, scheme=scheme) as device:
        switch = await opened(device, protocol, login=lambda: LOGIN)
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(1)
        assert not any("secret" in path for path in device.asked)
        for wrong in (DeviceLogin("admin", "wrong"), None):
            with pytest.raises(HardwareUnavailableError, match=r"^heater refuses the user or the password$"):
                await opened(device, protocol, login=lambda wrong=wrong: wrong)


@pytest.mark.parametrize("protocol", ["shelly_gen2", "tasmota"])
async def test_a_device_that_has_no_basic_authentication_never_gets_the_password_by_it(protocol):
    async with served(protocol, login=LOGIN, scheme="basic") as device:
        with pytest.raises(HardwareUnavailableError, match="refuses the user or the password"):
            await opened(device, protocol, login=lambda: LOGIN)
        assert device.logins == []


async def test_a_tasmota_device_gets_the_login_in_the_address_and_no_error_shows_it():
    async with served("tasmota") as device:
        switch = await opened(device, "tasmota", login=lambda: LOGIN)
        assert [*map(unquote, device.asked)] == ["/cm?cmnd=Power2 OFF&user=admin&password=to:p&s cret"]
        for device.fault in ("garbage", "echo"):
            with pytest.raises(HardwareUnavailableError, match="unexpected answer") as caught:
                await asyncio.to_thread(switch.write, 1.0, TIMER_S)
            assert "cret" not in str(caught.value)
    with pytest.raises(HardwareUnavailableError, match=r"^heater can't be reached: ") as caught:
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("answer", [b"SSH-2.0 hello\r\n", b"HTTP/1.1 200 OK\r\nX: " + 10_000 * b"x"])
async def test_no_error_of_a_device_that_speaks_no_http_has_the_password(answer):
    async def speak(_reader, writer):
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(HardwareUnavailableError, match="no valid HTTP answer") as caught:
            await asyncio.to_thread(HttpSwitch, Tasmota(base), ask_http, name="heater", login=lambda: LOGIN)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("broken", "answers with HTTP status 500"),
        ("moved", "answers with HTTP status 302"),
        ("garbage", "gives an unexpected answer: '<html>"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_wrong_answers_are_failures(protocol, fault, words):
    async with served(protocol) as device:
        switch = await opened(device, protocol)
        device.fault = fault
        with pytest.raises(HardwareUnavailableError) as caught:
            await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert str(caught.value).startswith(f"heater {words}")
        device.fault = ""
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(1)


async def test_a_slow_device_is_a_failure_after_the_time_limit(said):
    async with served("shelly_gen1") as device:
        device.fault = "slow"
        ask = partial(ask_http, limit_s=0.05)
        with said.raises(HardwareUnavailableError):
            await opened(device, "shelly_gen1", ask=ask)


@pytest.mark.parametrize("answer", [b'{"ison": false}', 60_000 * b"["], ids=["not on", "nested too deep"])
def test_a_relay_that_did_not_switch_and_an_answer_without_sense_are_failures(answer):
    with pytest.raises(HardwareUnavailableError, match="unexpected answer"):
        HttpSwitch(ShellyGen1("http://x"), lambda *_: (200, answer), name="heater").write(1.0, 60.0)


async def test_any_device_with_two_addresses():
    async with served("shelly_gen1") as device:
        on, off = f"{device.url}/relay/0?turn=on", f"{device.url}/relay/0?turn=off"
        switch = await asyncio.to_thread(partial(HttpSwitch, TwoAddresses(on, off), asking, name="heater"))
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(0)
        await asyncio.to_thread(switch.close)
        assert not device.switch.is_on(0)


async def test_a_tasmota_device_may_have_words_of_its_own():
    async with served("tasmota", words=("AUS", "EIN")) as device:
        switch = await opened(device, "tasmota")
        await asyncio.to_thread(switch.write, 1.0, TIMER_S)
        assert device.switch.is_on(1)
        await asyncio.to_thread(switch.close)
        assert not device.switch.is_on(1)


@pytest.mark.parametrize("meant", [b'{"StateText1":"AUS"}', b'{"StateText1":"OFF"}', b"", OSError("gone")])
def test_a_word_that_the_device_does_not_explain_is_a_failure(meant):
    def ask(address, _login):
        if "StateText1" not in address:
            return 200, b'{"POWER":"EIN"}'
        if isinstance(meant, OSError):
            raise meant
        return 200, meant

    with pytest.raises(
        HardwareUnavailableError, match=r"unexpected answer: .*EIN.*, which is not its StateText1"
    ):
        HttpSwitch(Tasmota("http://x"), ask, name="heater")


def test_the_timer_of_an_older_tasmota_is_understood():
    answers = {"Power1%20OFF": b'{"POWER":"OFF"}', "Power1%20ON": b'{"POWER":"ON"}'}
    asked = []

    def ask(address, _login):
        command = address.partition("cmnd=")[2]
        asked.append(command)
        return 200, answers.get(command, b'{"PulseTime1":"160 (Active 160)"}')

    HttpSwitch(Tasmota("http://x"), ask, name="heater", timer_s=60.0).write(1.0, 60.0)
    assert asked == ["Power1%20OFF", "PulseTime1%20160", "Power1%20ON"]


@pytest.mark.parametrize(("seconds", "number"), [(0.05, 1), (2.33, 24), (11.1, 111), (11.5, 112), (60, 160)])
def test_a_time_of_tasmota_is_rounded_up_to_what_it_takes(seconds, number):
    assert pulse_time(seconds) == number


class Client:
    """A connection whose messages reach a device."""

    def __init__(self, device):
        self.device = device
        self.problem = ""

    def subscribe(self, topic, receive):
        raise AssertionError((topic, receive))

    def send(self, topic, body, *, retain=False):
        assert not retain  # a device that restarts would get an old command
        if self.problem:
            raise ConnectionError(self.problem)
        self.device.receive(topic, body)


@pytest.mark.parametrize("protocol", ["tasmota", "shelly_gen2"])
async def test_a_device_over_mqtt_becomes_safe_by_its_timer(protocol):
    clock = ManualClock()
    device = SimulatedSwitch(protocol, clock.monotonic)
    messages = {
        "tasmota": lambda level, valid_s: tasmota_messages("plug", 1, valid_s, level),
        "shelly_gen2": lambda level, valid_s: shelly_messages("plug", 1, valid_s, level, safe_on=False),
    }[protocol]
    client = Client(device)
    output = MqttOutput(client, messages, name="heater", safe_on=False)
    output.write(1.0, 2.33)  # a dose
    await clock.advance(2.3)
    assert device.is_on(1)
    await clock.advance(0.1)
    assert not device.is_on(1)
    output.write(1.0, 60.0)
    output.close()
    assert not device.is_on(1)
    client.problem = "the MQTT broker can't be reached"
    with pytest.raises(HardwareUnavailableError, match=r"^heater: the MQTT broker can't be reached$"):
        output.write(1.0, 60.0)


def test_without_a_broker_there_is_no_output(said):
    with said.raises(SettingError):
        MqttOutput(None, lambda _: [], name="heater", safe_on=False)
