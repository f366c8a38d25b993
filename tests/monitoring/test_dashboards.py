"""The files for Grafana: what they name exists, and panels do not overlap."""

import re
from collections import Counter
from itertools import combinations

import pytest
import yaml

from growd_home.metrics import UNITS, render
from support.dashboards import DASHBOARDS, MONITORED, MONITORING, PROMETHEUS, dashboard, targets

NAMES = [path.stem for path in DASHBOARDS]
boards = pytest.mark.parametrize("name", NAMES)


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def sources():
    """The uids of the provisioned data sources and their types."""
    found = read(MONITORING / "grafana/provisioning/datasources/growd.yaml")["datasources"]
    return {each["uid"]: each["type"] for each in found}


def used_sources(part):
    if isinstance(part, dict):
        if "datasource" in part:
            yield part["datasource"]["uid"], part["datasource"]["type"]
        for each in part.values():
            yield from used_sources(each)
    elif isinstance(part, list):
        for each in part:
            yield from used_sources(each)


@boards
def test_every_data_source_is_provisioned(name):
    assert set(used_sources(dashboard(name))) <= set(sources().items())


def test_the_dashboards_have_their_own_uid_and_title():
    found = [(board["uid"], board["title"]) for board in map(dashboard, NAMES)]
    assert [len(set(each)) for each in zip(*found, strict=True)] == [3, 3]


@boards
def test_panels_have_their_own_id_and_place(name):
    panels = dashboard(name)["panels"]
    assert max(Counter(panel["id"] for panel in panels).values()) == 1
    assert all(panel["title"] for panel in panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 and place["h"] > 0 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (
            one,
            other,
        )


@boards
def test_queries_of_a_panel_have_their_own_letter(name):
    for panel in dashboard(name)["panels"]:
        letters = [each["refId"] for each in panel.get("targets", [])]
        assert len(letters) == len(set(letters))
        assert letters or panel["type"] == "row"


@boards
def test_every_variable_is_declared_before_it_is_used(name):
    board = dashboard(name)
    known = set()
    for variable in board["templating"]["list"]:
        assert uses(variable["definition"]) <= known
        assert variable["definition"] == variable["query"]["query"]
        known.add(variable["name"])
    for panel in board["panels"]:
        assert uses(str(panel)) <= known
        assert panel.get("repeat") in {None, *known}


def uses(text):
    """The variables that a text names, without Grafana's own."""
    return {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}


@boards
def test_every_metric_exists(name):
    text = render(MONITORED, "")[0].decode()
    known = {*re.findall(r"^(\w+)", text, re.MULTILINE), "up", "ALERTS"}
    board = dashboard(name)
    queries = [each["expr"] for each in targets(board, PROMETHEUS)]
    queries += [variable["definition"] for variable in board["templating"]["list"]]
    named = {
        metric for query in queries for metric in re.findall(r"\b(?:growd|process)_\w+(?=[{,)\[ ])", query)
    }
    assert named
    assert named <= known


def test_the_values_of_a_chamber_have_all_units():
    (panel,) = [panel for panel in dashboard("chamber")["panels"] if panel.get("repeat") == "variable"]
    suffixes = {suffix for suffix, _ in UNITS.values() if suffix}
    (expression,) = [target["expr"] for target in panel["targets"]]
    assert set(re.findall(r"\(_\(([\w|]+)\)\)", expression)[0].split("|")) == suffixes
    patterns = [each["matcher"]["options"].strip("/") for each in panel["fieldConfig"]["overrides"]]
    for suffix in suffixes:
        assert sum(bool(re.search(pattern, f"growd_other_{suffix}")) for pattern in patterns) == 1, suffix


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_the_containers_are_pinned_and_see_files_that_exist(service):
    compose = read(MONITORING / "compose.yaml")
    container = compose["services"][service]
    assert re.fullmatch(r"docker\.io/\w+/\w+:v?\d+\.\d+\.\d+", container["image"])
    for volume in container["volumes"]:
        source, _, mode = volume.replace(":/", " ").partition(" ")
        if source.startswith("."):
            assert (MONITORING / source).is_dir()
            assert mode.endswith(":ro")
        else:
            assert source in compose["volumes"]


def test_grafana_finds_the_dashboards_and_the_plugin():
    grafana = read(MONITORING / "compose.yaml")["services"]["grafana"]
    (provider,) = read(MONITORING / "grafana/provisioning/dashboards/growd.yaml")["providers"]
    folder = provider["options"]["path"]
    assert f"./grafana/dashboards:{folder}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in {f"{folder}/{path.name}" for path in DASHBOARDS}
    plugin = grafana["environment"]["GF_PLUGINS_PREINSTALL_SYNC"].partition("@")[0]
    assert plugin in sources().values()
