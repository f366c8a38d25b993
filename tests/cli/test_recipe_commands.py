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


def said(*arguments):
    return CliRunner().invoke(main, ["recipe", *map(str, arguments)])


@pytest.fixture
def written(tmp_path):
    def write(recipe, name="mine.json"):
        file = tmp_path / name
        file.write_text(recipe if isinstance(recipe, str) else json.dumps(recipe))
        return file

    return write


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch):
    monkeypatch.setenv("GROWD_URL", NOWHERE)


# --- Files, without a daemon


def test_check_prints_all_errors_with_their_places(written):
    done = said("check", written(WRONG))
    assert done.exit_code == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:3]] == [
        "error    /operations/0/0",
        "error    /operations/0/1",
        "error    /operations/1/2",
    ]
    assert done.stdout.endswith("cannot run in environment_1 of the configuration: 3 errors, 0 warnings.\n")
    why = f"no daemon answers at {NOWHERE}/_svc: is growd running? (--url or GROWD_URL names another address)"
    assert done.stderr == f"growd: checked without the daemon: {why}\n"


def test_check_warns_about_the_actuators_of_the_configuration(written):
    file = written(WARM)
    done = said("check", file, "--set", "light.full_scale_lux=5000")
    assert done.exit_code == 0
    lamp, heater, reported = done.stdout.splitlines()
    assert lamp == "warning  /operations/0: light_illuminance can be driven from 0 to 5000 here, not to 9000"
    assert "nothing here drives air_temperature" in heater
    here = "environment_1 of the configuration"
    assert reported == f"{file} can run in {here}, and lasts 2 h: 0 errors, 2 warnings."


def test_check_warns_about_the_actuators_of_a_profile(written, monkeypatch):
    file = written({"format": "simple", "operations": [[0, "air_carbon_dioxide", 800]]})
    drives_none = "nothing here drives air_carbon_dioxide"
    assert drives_none in said("check", file, "--profile", "minimal").stdout
    assert drives_none not in said("check", file, "--profile", "sim").stdout
    monkeypatch.setenv("GROWD_PROFILE", "minimal")
    assert drives_none in said("check", file).stdout


@pytest.mark.parametrize("command", ["check", "show"])
def test_an_unknown_environment_is_refused(written, command):
    done = said(command, written(WARM), "--environment", "shelf_3")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "growd: there is no environment shelf_3; expected one of environment_1\n" in done.stderr


def test_check_uses_the_named_environment(written):
    chamber = ("--set", "chamber.shelf_2.light.enabled=false")
    done = said("check", written(WARM), *chamber, "--environment", "shelf_2")
    assert "nothing here drives light_illuminance" in done.stdout


def test_findings_as_json(written):
    first, *_ = json.loads(said("check", written(WRONG), "--json").stdout)
    assert first == {
        "severity": "error",
        "pointer": "/operations/0/0",
        "sentence": "expected the offset as a number of seconds, from 0 to ten years, got -1",
    }


TWICE = """{"format": "phased",
 "phases": [{"duration": 1, "time_units": "days",
             "course": {"air_temperature": [{"at": 0, "value": 20}]},
             "c\\u006furse": {}}],
 "note": "a: {\\"b\\": 1}", "x": [{"a": 1}, {"a": 2}]}"""


def test_a_repeated_key_is_an_error_with_its_line(written):
    done = said("check", written(TWICE))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == 'error    /: line 4: the key "course" is repeated in one object'
    for command in (["show"], ["put"]):
        refused = said(*command, written(TWICE))
        assert refused.exit_code != 0
    assert 'line 4: the key "course"' in said("show", written(TWICE)).stderr


def test_show_prints_phases_and_set_points_as_a_table():
    done = said("show", DAYS)
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
    lines = said("show", written({"format": "flexformat", "phases": [phase]})).stdout.splitlines()
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
    whole = said("show", written({"format": "phased", "phases": [long]})).stdout.splitlines()
    lines = said("show", written({"format": "phased", "phases": [long, later]})).stdout.splitlines()
    assert lines[-1] == f"... cut off after {MOST} lines: there are too many set points"
    assert lines[3:-1] == whole[3:]


def test_show_prints_the_plan_as_json():
    plan = json.loads(said("show", DAYS, "--json").stdout)
    assert [phase["name"] for phase in plan["phases"]] == ["germination", "seedling", "growth", "harvest"]
    assert plan["series"].keys() == {"light_illuminance", "air_carbon_dioxide"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[" * 100_000, "is not JSON"),
        (
            json.dumps(WRONG),
            "cannot run: it has 3 errors:\n  /operations/0/0: expected the offset as a number",
        ),
        ("5", "/: expected a recipe as an object, got 5"),
    ],
)
def test_invalid_files_are_reported_in_one_sentence(written, content, words):
    done = said("show", written(content))
    assert (done.exit_code, words in done.stderr) == (1, True)


def test_which_arguments_are_files(written):
    assert said("check", "none.json").stderr == "growd: none.json can't be read: No such file or directory\n"
    assert "can run" in said("check", written(WARM, "a recipe")).stdout


def test_schema_prints_the_schema_of_a_format():
    assert json.loads(said("schema", "phased").stdout) == schema_of("phased")
    assert said("schema", "other").exit_code == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (80, "1 min 20 s"),
        (5_400, "1 h 30 min"),
        (86_400, "1 d"),
        (90_061, "1 d 1 h 1 min 1 s"),
    ],
)
def test_durations_in_words(seconds, words):
    assert lasting(seconds) == words


# --- Ids, with a daemon


@pytest.mark.parametrize("command", ["check", "show"])
def test_an_id_may_be_longer_than_a_file_name(command):
    done = said(command, "é" * 150, "--url", "http://127.0.0.1:9")
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
