"""`growd recipe` with files, and with recipes in the database of a daemon."""

import json

import pytest
from click.testing import CliRunner

from growd.recipes.interpreter import schema_of
from growd_cli.main import main
from growd_cli.recipe_plan import lasting
from support.couch_client import FILES
from support.program import home_on, started
from support.terminal import typed

NOWHERE = "http://127.0.0.1:9"
MOST = 100  # set points that are listed
DEMO = FILES / "recipes" / "demo_day.json"
DAYS = FILES / "recipes" / "lettuce_days.json"
WARM = {"format": "simple", "operations": [[0, "light_illuminance", 9_000], [7_200, "air_temperature", 25]]}
WRONG = {"format": "simple", "operations": [[-1, "warmth", 2], [0, "air_humidity", 200]]}


def recipe(*arguments):
    return CliRunner().invoke(main, ["recipe", *map(str, arguments)])


@pytest.fixture
def written(tmp_path):
    def write(content, name="mine.json"):
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return write


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch):
    monkeypatch.setenv("GROWD_URL", NOWHERE)


# --- Files, without a daemon


def test_check_prints_all_errors_with_their_places(written, said):
    done = recipe("check", written(WRONG))
    assert done.exit_code == 1
    said(done.stdout.splitlines())
    said(done.stderr)
    findings = json.loads(recipe("check", written(WRONG), "--json").stdout)
    assert [each["pointer"] for each in findings if each["severity"] == "error"] == [
        *("/operations/0/0", "/operations/0/1", "/operations/1/2")
    ]
    said([each["sentence"] for each in findings])


def test_check_warns_about_the_actuators_of_the_configuration(written, said):
    file = written(WARM)
    done = recipe("check", file, "--set", "light.full_scale_lux=5000")
    assert done.exit_code == 0
    said(done.stdout.splitlines())
    shelf = ("--set", "chamber.shelf_2.light.enabled=false", "--environment", "shelf_2")
    assert "nothing here drives light_illuminance" in recipe("check", file, *shelf).stdout
    for command in ("check", "show"):
        done = recipe(command, file, "--environment", "shelf_3")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "growd: there is no environment shelf_3; expected one of environment_1\n" in done.stderr


def test_check_warns_about_the_actuators_of_a_profile(written, monkeypatch):
    file = written({"format": "simple", "operations": [[0, "air_carbon_dioxide", 800]]})
    drives_none = "nothing here drives air_carbon_dioxide"
    assert drives_none in recipe("check", file, "--profile", "minimal").stdout
    assert drives_none not in recipe("check", file, "--profile", "sim").stdout
    monkeypatch.setenv("GROWD_PROFILE", "minimal")
    assert drives_none in recipe("check", file).stdout


TWICE = """{"format": "phased",
 "phases": [{"duration": 1, "time_units": "days",
             "course": {"air_temperature": [{"at": 0, "value": 20}]},
             "c\\u006furse": {}}],
 "note": "a: {\\"b\\": 1}", "x": [{"a": 1}, {"a": 2}]}"""


def test_a_repeated_key_is_an_error_with_its_line(written):
    done = recipe("check", written(TWICE))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == 'error    /: line 4: the key "course" is repeated in one object'
    for command in (["show"], ["put"]):
        refused = recipe(*command, written(TWICE))
        assert refused.exit_code != 0
    assert 'line 4: the key "course"' in recipe("show", written(TWICE)).stderr


def test_show_prints_phases_and_set_points_as_a_table():
    done = recipe("show", DAYS)
    assert done.exit_code == 0
    heading, _, names, *lines = done.stdout.splitlines()
    assert heading.startswith("lettuce_days (phased), 41 d: from ")
    assert " ".join(names.split()) == "phase from to variable unit repeated at value to next"
    assert lines[0].split() == [
        *("germination", "day", "1", "00:00", "day", "4", "00:00"),
        *("air_carbon_dioxide", "ppm", "0", "s", "400"),
    ]
    assert any("each day  05:30      0  sine" in line for line in lines)
    assert [line.split()[0] for line in lines if line[0] != " "] == [
        *("germination", "seedling", "growth", "harvest")
    ]


def test_show_prints_the_cycles_of_set_points(written):
    point = {"start_time": 0.5, "end_time": 2, "value": 5}
    phase = {"cycles": 9, "time_units": "hours", "step": {"light_illuminance": [point]}}
    lines = recipe("show", written({"format": "flexformat", "phases": [phase]})).stdout.splitlines()
    assert "every 2 h     0 s  release" in lines[3]
    assert "30 min        5" in lines[4]
    assert lines[0].startswith("mine (flexformat), 18 h")


def test_show_marks_a_truncated_table(written, monkeypatch):
    """Phases after the last listed set point are not in the table."""
    monkeypatch.setattr("growd_analysis.recipes.drawing.MAX_WRITTEN", MOST)
    many = [{"at": number / MOST, "value": 50} for number in range(MOST)]
    long, later = (
        {"duration": 1, "time_units": "days", "course": {"air_humidity": points}}
        for points in (many, many[:1])
    )
    whole = recipe("show", written({"format": "phased", "phases": [long]})).stdout.splitlines()
    lines = recipe("show", written({"format": "phased", "phases": [long, later]})).stdout.splitlines()
    assert lines[-1] == f"... cut off after {MOST} lines: there are too many set points"
    assert lines[3:-1] == whole[3:]


def test_show_prints_the_plan_as_json():
    plan = json.loads(recipe("show", DAYS, "--json").stdout)
    assert [phase["name"] for phase in plan["phases"]] == ["germination", "seedling", "growth", "harvest"]
    assert plan["series"].keys() == {"light_illuminance", "air_carbon_dioxide"}


def test_invalid_files_are_reported_in_one_sentence(written, said):
    for content in ("{", "[" * 100_000, json.dumps(WRONG), "5"):
        done = recipe("show", written(content))
        assert done.exit_code == 1
        said(done.stderr)
    done = recipe("check", "none.json")
    assert done.exit_code == 1
    said(done.stderr)
    assert "can run" in recipe("check", written(WARM, "a recipe")).stdout


def test_schema_prints_the_schema_of_a_format():
    assert json.loads(recipe("schema", "phased").stdout) == schema_of("phased")
    assert recipe("schema", "other").exit_code == 2


def test_durations_in_words():
    words = {0: "0 s", 0.5: "0.5 s", 5_400: "1 h 30 min", 86_400: "1 d", 90_061: "1 d 1 h 1 min 1 s"}
    assert {seconds: lasting(seconds) for seconds in words} == words


# --- Ids, with a daemon


def test_an_id_may_be_longer_than_a_file_name():
    done = recipe("check", "é" * 150, "--url", NOWHERE)
    assert (done.exit_code, "no daemon answers" in done.stderr) == (3, True)


async def test_check_and_show_use_the_database_of_the_daemon(tmp_path, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--set=light.enabled=true", *home.arguments) as program,
    ):
        await program.until_there(f"{home.recipes}/lettuce_days", home.headers)

        async def ask(*arguments):
            printed = await typed("recipe", *arguments, "--url", program.address)
            return printed.status, printed.out + printed.err

        status, printed = await ask("check", "lettuce_days")
        assert (status, printed.splitlines()[-1]) == (
            0,
            "lettuce_days can run, and lasts 41 d: 0 errors, 1 warning.",
        )
        status, printed = await ask("show", "demo_day")
        assert (status, printed.startswith("demo_day (simple), 4 min: from ")) == (0, True)
        status, printed = await ask("check", "nothing_of_the_kind")
        assert (status, printed) == (1, "growd: there is no recipe nothing_of_the_kind\n")
        status, printed = await ask("check", str(DEMO))
        here = f"environment_1 of the daemon at {program.address}"
        reported = f"{DEMO} can run in {here}, and lasts 4 min: 0 errors, 1 warning."
        assert (status, printed.splitlines()[-1]) == (0, reported)
        status, printed = await ask("show", "demo_day", "--environment", "elsewhere")
        assert (status, "elsewhere/recipe_plan" in printed) == (1, True)
