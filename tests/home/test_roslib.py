"""rosbridge with roslib itself, in Node."""

import asyncio
import json
import shutil
from pathlib import Path
from subprocess import PIPE

import pytest

from support.checkout import ROOT
from support.daemon import CALIBRATE, CO2, LIGHT, START, STOP
from support.waiting import PATIENCE_S

ROSLIB = ROOT / "page/node_modules/roslib/dist/RosLib.js"
CLIENT = Path(__file__).with_name("roslib_client.mjs")
NODE = shutil.which("node")


@pytest.mark.skipif(not ROSLIB.exists(), reason="page/node_modules has no roslib (./test installs it)")
@pytest.mark.skipif(
    NODE is None, reason="roslib was not tested: no Node found (on Debian: apt install nodejs)"
)
async def test_what_pages_do_with_roslib(daemon):
    daemon.sensor[CO2].publish(612.5)
    url = f"ws://127.0.0.1:{daemon.port}/_svc/rosbridge"
    program = await asyncio.create_subprocess_exec(
        NODE, CLIENT, ROSLIB.as_uri(), url, stdout=PIPE, stderr=PIPE
    )
    printed, errors = await asyncio.wait_for(program.communicate(), PATIENCE_S)
    assert program.returncode == 0, errors.decode()
    seen = json.loads(printed)

    assert (seen["first"], seen["echo"]) == ({"data": 612.5}, {"data": 8000})
    assert daemon.bus.topics.get(LIGHT).last.value == 8000.0
    sentence = f'clients can\'t publish on the topic "{CO2}": it belongs to the node scd30'
    assert [each["msg"] for each in seen["statuses"]] == [sentence, sentence]  # advertised and published
    assert seen["started"] == {"success": True, "message": "started demo_day"}
    assert seen["refused"] == {"refusal": "there is no recipe named unknown"}

    done = {"successful": True, "reason": ""}
    assert (seen["before"], seen["set"], seen["after"], seen["deleted"]) == (5.0, done, 7.5, done)
    assert seen["missing"] == {"refusal": 'there is no parameter named "nothing"'}

    assert dict(zip(seen["topics"]["topics"], seen["topics"]["types"], strict=True))[f"/{CO2}"]
    assert seen["topic_type"] == "std_msgs/Float64"
    assert seen["services"] == [f"/{START}", f"/{STOP}", f"/{CALIBRATE}"]
    assert seen["service_type"] == "growd/StartRecipe"
    assert seen["nodes"] == ["/http", "/recipe_runner", "/scd30"]
    assert "/sensors/scd30/interval" in seen["parameters"]
    assert {f"/{CO2}", f"/{LIGHT}"} <= {*seen["for_type"]}
    assert (seen["publishers"], seen["typedef"]) == (["/scd30"], {"data": "float64"})
    raw = dict(zip(seen["raw"]["topics"], seen["raw"]["typedefs_full_text"], strict=True))
    assert raw["/chamber/position"] == "float64 x\nfloat64 y\nfloat64 z"
    assert seen["services_for_type"] == [f"/{START}"]
    assert seen["request"]["typedefs"][0]["fieldnames"] == ["recipe_id"]
    assert seen["response"]["typedefs"][0]["fieldtypes"] == ["bool", "string"]
    assert f"/{CO2}" in seen["node"]["publishing"]
    assert seen["actions"] == []
    assert seen["unknown"] == {"refusal": 'there is no message type named "a/B"'}
