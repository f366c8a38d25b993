"""The topics and the ACL of the documentation are those of growd."""

import asyncio
import re
import shutil

import aiomqtt
import pytest
from msgspec import structs

from growd.status.model import OutputStatus
from growd_home.messages import state_of
from support.checkout import ROOT
from support.home import CLIMATE, DEVICE, ENVIRONMENT, IDLE, TOPICS, Home, reading
from support.ports import held_port
from support.status import EMPTY
from support.waiting import until, until_found

MQTT = (ROOT / "docs" / "mqtt.md").read_text(encoding="utf-8")
HOME_ASSISTANT = (ROOT / "docs" / "home-assistant.md").read_text(encoding="utf-8")
USERS = ("growd", "homeassistant", "stranger")
FAN = OutputStatus(
    *(ENVIRONMENT, "fan", "fan", "air_flush_on", "fan", "relay", None, None, 100_000),
    *(0.0, 0.0, 0, 0.0, None, None, 1.0, None),
)


def _documented(section):
    text = MQTT.partition(f"## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return set(re.findall(r"`(growd/<device>/[^`]+)`", " ".join(cells)))


def _general(topic):
    topic = topic.replace(DEVICE, "<device>").replace(f"/{ENVIRONMENT}/", "/<env>/")
    topic = re.sub(r"/(measured|desired|commanded)/\w+", r"/\1/<variable>", topic)
    return re.sub(r"/outputs/\w+", "/outputs/<output>", topic)


def test_the_documented_topics_and_members_of_state_are_those_that_are_published():
    variables = [reading(name, 1.0) for name in CLIMATE.known]
    status = structs.replace(EMPTY, variables=variables, recipes=[IDLE], outputs=[FAN])
    state = state_of(status, [CLIMATE])
    published = {_general(TOPICS(*names)) for names in state}
    with_others = {_general(TOPICS(*names)) for names in ((ENVIRONMENT, "recipe", "selected"), ("event",))}
    assert _documented("State") == published | with_others | {_general(TOPICS.availability)}
    for names, document in state.items():
        line = next(each for each in MQTT.splitlines() if f"`{_general(TOPICS(*names))}`" in each)
        assert [member for member in document if f"`{member}`" not in line and member != "time"] == []


def test_the_documented_commands_are_those_that_are_taken():
    subscribed = {
        each.replace(f"{DEVICE}/+", "<device>/<env>")
        .replace(DEVICE, "<device>")
        .replace("/+/", "/<variable>/")
        for each in TOPICS.commands()
    }
    assert _documented("Commands") == subscribed
    for topic in subscribed:
        assert TOPICS.is_command(topic.replace("<device>", DEVICE))


@pytest.mark.skipif(shutil.which("mosquitto") is None, reason="needs the Debian package mosquitto")
async def test_the_documented_acl_lets_home_assistant_command_and_nobody_else(tmp_path):
    (tmp_path / "acl").write_text(re.findall(r"```acl\n(.*?)```", HOME_ASSISTANT, re.DOTALL)[0])
    for name in ("acl", "passwords"):
        (tmp_path / name).touch(0o600)
    for number, user in enumerate(USERS):
        new = ["-c"] if number == 0 else []
        words = ["mosquitto_passwd", "-b", *new, tmp_path / "passwords", user, user]
        made = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
        assert await made.wait() == 0
    with held_port() as port:
        files = f"password_file {tmp_path}/passwords\nacl_file {tmp_path}/acl\nuser root\n"
        (tmp_path / "conf").write_text(f"listener {port} 127.0.0.1\n{files}")
        broker = await asyncio.create_subprocess_exec(
            "mosquitto", "-c", tmp_path / "conf", stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await _until_listening(port)
            await _command_as(port)
        finally:
            broker.terminate()
            await broker.wait()


async def _until_listening(port):
    async def is_listening():
        async with aiomqtt.Client("127.0.0.1", port, username="growd", password="growd"):
            return True

    await until_found(is_listening, aiomqtt.MqttError)


async def _command_as(port):
    home = Home(port, login=("growd", "growd"))
    topic = home.bus.topics.get(f"{ENVIRONMENT}/desired/air_temperature")
    command = f"growd/{DEVICE}/{ENVIRONMENT}/desired/air_temperature/set"
    async with home.running(), home.watched(login=("homeassistant", "homeassistant")):
        await until(lambda: home.is_up and home.state(ENVIRONMENT, "measured", "air_temperature"))
        assert any(name.endswith("/config") for name in home.seen)
        async with aiomqtt.Client("127.0.0.1", port, username="stranger", password="stranger") as stranger:
            await stranger.publish(command, "60", qos=1)
        await home.client.publish(command, "24", qos=1)
        await until(lambda: topic.last is not None)
        assert (topic.last.value, topic.count) == (24.0, 1)
