"""The files for Prometheus, checked by promtool, and each query of the dashboards asked of a Prometheus."""

import asyncio
import re
import shutil
import subprocess
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

import aiohttp
import pytest
import yaml
from aiohttp import web

from growd.variables import VARIABLES
from growd_home.metrics import render
from support.dashboards import (
    DASHBOARDS,
    MONITORED,
    MONITORING,
    PROMETHEUS,
    VARIABLE,
    dashboard,
    filled,
    targets,
)
from support.http_server import serving_http
from support.ports import held_port
from support.status import SHELF
from support.waiting import until_found

needs = {
    program: pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is missing (Debian: prometheus)"
    )
    for program in ("promtool", "prometheus")
}
CHAMBER = "chamber-1"


def promtool(*arguments, folder=MONITORING):
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs["promtool"]
def test_promtool_accepts_the_configuration_and_the_rules():
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")
    assert "SUCCESS" in promtool("check", "rules", "rules.yml")


@needs["promtool"]
def test_promtool_accepts_the_job_with_a_login_once_it_is_uncommented(tmp_path):
    text = (MONITORING / "prometheus.yml").read_text()
    job = re.search(r"^#  - job_name: growd-login\n(#   .*\n)+", text, re.MULTILINE)
    assert job
    login = re.sub(r"^#", "", job[0], flags=re.MULTILINE)
    (tmp_path / "prometheus.yml").write_text(text.replace(job[0], login))
    for name in ("password", "ca.pem"):
        (tmp_path / name).write_text("secret")
    shutil.copy(MONITORING / "rules.yml", tmp_path)
    promtool("check", "config", "prometheus.yml", folder=tmp_path)
    jobs = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]
    assert [each["job_name"] for each in jobs] == ["growd", "growd-login"]
    assert jobs[0]["relabel_configs"] == jobs[1]["relabel_configs"]


def test_the_rules_know_each_variable_that_is_calculated():
    """Otherwise a sensor that fails makes alerts of what is calculated from it."""
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"][0]["rules"]
    (text,) = (rule["expr"] for rule in rules if rule["alert"] == "NoValue")
    pairs = re.findall(r'variable=~?"([^"]+)"', text)
    known = {
        name: set(of.split("|"))
        for names, of in zip(pairs[::2], pairs[1::2], strict=True)
        for name in names.split("|")
    }
    calculated = {name: {*each.derived_from} for name, each in VARIABLES.items() if each.is_derived}
    assert known.keys() == calculated.keys()
    assert all(known[name] >= sources for name, sources in calculated.items())


@pytest.mark.long
@needs["promtool"]
def test_each_alert_fires_in_its_time_and_only_then():
    assert "SUCCESS" in promtool("test", "rules", "rules_test.yml")
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"][0]["rules"]
    tested = re.findall(r"alertname: (\w+)", (MONITORING / "rules_test.yml").read_text())
    assert {rule["alert"] for rule in rules} == set(tested)


def test_the_documentation_lists_every_alert():
    page = (MONITORING.parent / "monitoring.md").read_text()
    listed = re.findall(r"`([A-Z]\w+)`", page.partition("## Alerts")[2].partition("\n\nThe alerts")[0])
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"][0]["rules"]
    assert listed == [rule["alert"] for rule in rules]


def configured(folder, target):
    """The files of docs/monitoring for this one chamber, asked each half second."""
    text = (MONITORING / "prometheus.yml").read_text()
    (folder / "prometheus.yml").write_text(re.sub(r"(_interval:) 15s", r"\1 500ms", text))
    shutil.copy(MONITORING / "rules.yml", folder)
    targets = (MONITORING / "targets/chambers.yml").read_text()
    (folder / "targets").mkdir()
    (folder / "targets/chambers.yml").write_text(targets.replace('"127.0.0.1:5984"', f'"{target}"'))


@asynccontextmanager
async def prometheus(folder, target):
    """The address of a Prometheus that asks `target`."""
    configured(folder, target)
    with held_port() as port:
        address = f"127.0.0.1:{port}"
        options = (f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}")
        process = await asyncio.create_subprocess_exec(
            *("prometheus", f"--config.file={folder / 'prometheus.yml'}", *options),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()
            await process.wait()


async def rows(session, address, query):
    """The series of a query, empty until there are some."""
    try:
        async with session.get(f"{address}/query", params={"query": query}) as answer:
            if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
                return []  # it is starting
            found = await answer.json()
    except aiohttp.ClientConnectionError:
        return []  # it does not listen yet
    assert found["status"] == "success", (query, found)
    return found["data"]["result"]


def queries():
    """Each query of the dashboards by itself, with the values of its variables, and finer steps."""
    values = {"instance": CHAMBER, "environment": SHELF, "variable": VARIABLE, "group": ".*", "__range": "1h"}
    expressions = [each["expr"] for path in DASHBOARDS for each in targets(dashboard(path.stem), PROMETHEUS)]
    return {each: filled(each, **values).replace("[1d:1m]", "[1m:1s]") for each in expressions}


@pytest.mark.long
@needs["prometheus"]
async def test_every_query_has_an_answer(tmp_path):
    async def metrics(_):
        body, kind = await asyncio.to_thread(render, MONITORED, "")
        return web.Response(body=body, headers={"Content-Type": kind})

    assert len(queries()) > 30
    async with (
        serving_http(metrics) as chamber,
        prometheus(tmp_path, chamber.removeprefix("http://")) as address,
        aiohttp.ClientSession() as session,
    ):
        for query in queries().values():  # rates and alerts need a second sample
            await until_found(partial(rows, session, address, query))
        (values,) = (text for query, text in queries().items() if "${variable}" in query)
        names = {each["metric"]["__name__"] for each in await rows(session, address, values)}
        assert names == {
            f"growd_{kind}_air_humidity_ratio" for kind in ("measured", "desired", "band_min", "band_max")
        }
        (info,) = await rows(session, address, "growd_build_info")
        assert (info["metric"]["instance"], info["metric"]["url"]) == (CHAMBER, chamber)
