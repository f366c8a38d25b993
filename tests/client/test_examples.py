"""Each program in docs/examples runs against a growd with a simulated chamber, as its first lines say."""

import asyncio
import json
import re
import shutil
import signal
import sys
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from aiohttp import web

from growd_client import AsyncGrowd
from support.browser import needs_browser, running_browser
from support.checkout import ROOT
from support.http_server import serving_http
from support.photos import jpeg
from support.program import home_on, started
from support.waiting import PATIENCE_S, until_found

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

EXAMPLES = ROOT / "docs" / "examples"
E1 = "environment_1"
HEEDING_INTERRUPTS = ("env", "--default-signal=INT")  # a shell may have started the tests without


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def program(tmp_path_factory, database_server):
    """A growd that has stored its first points."""
    data = tmp_path_factory.mktemp("growd")
    settings = ("--profile", "sim", "--set", 'http.origins=["*"]')
    async with home_on(database_server) as home, started(data, *settings, *home.arguments) as program:
        async with AsyncGrowd(program.address) as growd:

            async def has_stored():
                return has_points((await growd.history(E1, "air_temperature")).series)

            await until_found(has_stored)
        yield program


def has_points(series):
    return bool(series and series[0].measured.time)


@asynccontextmanager
async def running(*command):
    """An example that runs until it is interrupted."""
    process = await asyncio.create_subprocess_exec(
        *HEEDING_INTERRUPTS, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()


async def line(process, pattern):
    """The next line that has this pattern."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while text := (await process.stdout.readline()).decode():
            if re.search(pattern, text):
                return text
    raise AssertionError(f"the example ended without {pattern}")


async def interrupted(process):
    process.send_signal(signal.SIGINT)
    rest = await asyncio.wait_for(process.stdout.read(), PATIENCE_S)
    return await asyncio.wait_for(process.wait(), PATIENCE_S), rest.decode()


async def printed_by(*command):
    """The exit status and the output of an example that ends by itself."""
    async with running(*command) as process:
        printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode is not None
        return process.returncode, printed.decode()


def python(name, *arguments):
    return sys.executable, str(EXAMPLES / name), *arguments


async def test_the_band_of_a_day(program):
    status, printed = await printed_by(*python("day.py", program.address))
    assert status == 0
    assert printed.startswith("each 1 h, from (UTC)\n")
    assert re.search(r"^\d\d \d\d:\d\d  [\d.]+ to [\d.]+ degC$", printed, re.MULTILINE)
    status, printed = await printed_by(*python("day.py", program.address, "air_phlogiston"))
    assert (status, "air_phlogiston" in printed, "Traceback" in printed) == (1, True, False)
    points = re.search(r"points=(\d+)", (EXAMPLES / "day.py").read_text())
    async with AsyncGrowd(program.address) as growd:
        past = await growd.history(E1, "air_temperature", points=int(points[1]))
    assert past.bucket_s == 3600


async def test_less_carbon_dioxide_at_night(program):
    desired = f"{E1}/desired/air_carbon_dioxide"
    async with (
        AsyncGrowd(program.address) as growd,
        running(*python("evening.py", program.address)) as process,
    ):
        target = re.search(r"set point (900|500) ppm", await line(process, "set point"))
        assert target
        assert (await growd.read(desired)).value == float(target[1])
        await line(process, r"\d\d:\d\d (\d+ ppm|warm-up)")
        status, rest = await interrupted(process)
        assert (status, rest) == (0, "")
        assert (await growd.read(desired)).value is None


async def test_lost_measurements_are_reported(program):
    async with running(*python("watch.py", program.address)) as process:
        await line(process, rf"^{E1}/measured/air_temperature ok: [\d.]+ degC$")
        status, rest = await interrupted(process)
    assert status == 0
    assert "Traceback" not in rest


async def test_a_recipe_from_node(program):
    node = shutil.which("node")
    if node is None:
        pytest.skip("the JavaScript example was not tested: no Node found (on Debian: apt install nodejs)")
    recipe = str(EXAMPLES / "recipe.mjs")
    async with running(node, recipe, program.address, "demo_day") as process:
        await line(process, "the recipe demo_day has started")
        await line(process, rf"{E1}/desired/\w+ [\d.]+")
        status, rest = await interrupted(process)
    assert status == 0
    assert "the recipe demo_day has been stopped" in rest
    async with running(node, recipe, program.address, "demo_day") as process:
        first = await line(process, f"{E1}/desired/")
        _, rest = await interrupted(process)
    assert "/recipe_" not in first + rest
    status, printed = await printed_by(node, recipe, program.address, "nothing")
    assert (status, len(printed.splitlines())) == (1, 1)


async def test_a_day_in_r(program, tmp_path):
    if (rscript := shutil.which("Rscript")) is None:
        pytest.skip("the R example was not tested (on Debian: apt install r-cran-httr2 r-cran-jsonlite)")
    picture = tmp_path / "day.pdf"
    script = str(EXAMPLES / "day.R")
    status, printed = await printed_by(rscript, script, program.address, "air_temperature", str(picture))
    assert status == 0, printed
    assert "Median" in printed
    assert picture.read_bytes().startswith(b"%PDF")
    status, printed = await printed_by(rscript, script, program.address, "air_phlogiston", str(picture))
    assert status == 1
    assert "air_phlogiston" in printed
    assert await printed_by(rscript, script) == (2, "usage: Rscript day.R URL VARIABLE PDF\n")


async def test_a_harvest_with_curl(program, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("the example for curl was not tested (on Debian: apt install curl)")
    photos = [tmp_path / "tray 1.jpg", tmp_path / "tray-2.jpg"]
    for photo in photos:
        photo.write_bytes(jpeg())
    script = str(EXAMPLES / "harvest.sh")
    status, printed = await printed_by(script, program.address, "212.4", *map(str, photos))
    assert status == 0, printed
    saved, listed = map(json.loads, printed.splitlines())
    assert (saved["measurements"], len(saved["photos"])) == ({"harvest_fresh_mass": 212.4}, 2)
    assert saved["id"] in [entry["id"] for entry in listed["entries"]]
    status, printed = await printed_by(script, program.address, '"much"')
    assert status != 0
    assert "harvest_fresh_mass" in printed
    assert await printed_by(script, program.address) == (2, "usage: harvest.sh URL GRAMS [PHOTO...]\n")


@needs_browser
async def test_values_in_a_browser(program):
    async def page(_):
        return web.FileResponse(EXAMPLES / "watch.html")

    async with serving_http(page) as url, running_browser() as browser:
        tab = await browser.new_page()
        await tab.goto(f"{url}/watch.html?url={program.address}")
        await tab.get_by_text(re.compile(r"air_temperature: [\d.]+")).wait_for()
        assert await tab.locator("#state").text_content() == "connected"
