"""A client that is generated from the OpenAPI document has every operation, and each works."""

import asyncio
import importlib
import inspect
import json
import subprocess
import sys
import time

import aiohttp
import pytest

from growd.api.operations import OPERATIONS
from growd_analysis.runs.calls import RunCalls
from growd_camera.calls import PhotoCalls
from growd_web.part import ApiDocument
from support.photos import jpeg
from support.program import home_on, started
from support.waiting import PATIENCE_S, wait_until

pytest.importorskip(
    "openapi_python_client", reason="openapi-python-client of requirements/test.lock is missing"
)

E1 = "environment_1"
_OF_CAMERAS = PhotoCalls(None, None, ()).operations
_REPLACED = {(each.method, each.resource, each.kind) for each in _OF_CAMERAS}
ALL = (
    *(each for each in OPERATIONS if (each.method, each.resource, each.kind) not in _REPLACED),
    *RunCalls(None, None, None).operations,
    *ApiDocument(None).operations,
    *_OF_CAMERAS,
)
SETTINGS = {  # the generator knows no images
    "content_type_overrides": dict.fromkeys(
        ("image/jpeg", "image/png", "image/webp"), "application/octet-stream"
    ),
    "post_hooks": [],
}
LEFT_OUT = {
    *("get_topic_stream_topic", "get_stream")  # they have no end
}


def identifier(operation):
    name = f"{operation.method.lower()}_{operation.resource}_{operation.kind}".strip("_")
    return name.replace(".", "_")


def generate(document, folder):
    """Generate the package `generated` in this folder; a warning fails."""
    (folder / "openapi.json").write_bytes(document)
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    command = [
        sys.executable,
        "-m",
        "openapi_python_client",
        "generate",
        "--fail-on-warning",
        "--meta",
        "none",
    ]
    files = ["--path", "openapi.json", "--config", "settings.json", "--output-path", "generated"]
    done = subprocess.run(
        [*command, *files], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Generated:
    """The generated functions by name; `called` are those that a test has called."""

    def __init__(self, address):
        self._client = self.part("client").Client(base_url=address, timeout=PATIENCE_S)
        names = [identifier(operation) for operation in ALL]
        tags = [operation.resource.replace(".", "_") for operation in ALL]
        self.modules = {name: self.part(f"api.{tag}.{name}") for name, tag in zip(names, tags, strict=True)}
        self.called = set()

    def part(self, name):
        return importlib.import_module(f"generated.{name}")

    def model(self, name, content):
        return getattr(self.part("models"), name).from_dict(content)

    def ask(self, name, *arguments, **options):
        """The parsed answer, which must be none of an error."""
        self.called.add(name)
        answer = self.modules[name].sync_detailed(*arguments, client=self._client, **options)
        assert answer.status_code == 200, answer.content
        return answer.parsed

    def close(self):
        self._client.get_httpx_client().close()


@pytest.fixture
def importable(tmp_path):
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated"]:
        del sys.modules[name]


def use(client):
    """Call every operation that is not left out."""
    ask = client.ask
    topics = ask("get_topic").results
    temperature, light = f"{E1}/measured/air_temperature", f"{E1}/desired/light_illuminance"
    assert temperature in topics
    assert ask("get_topic_topic", temperature).type_ == "std_msgs/Float64"
    assert ask("post_topic_topic", light, body=[8000], by="anna").message
    wait_until(
        lambda: client.modules["get_topic_data_topic"].sync(temperature, client=client._client, last=True)
    )
    data = ask("get_topic_data_topic", temperature, timeout=5.0)
    assert data.node
    assert f"{E1}/start_recipe" in ask("get_service").results
    assert "recipe_id" in ask("get_service_service", f"{E1}/start_recipe").args
    assert ask("post_service_service", f"{E1}/start_recipe", body={"recipe_id": "demo_day"}).success
    assert ask("post_service_service", f"{E1}/stop_recipe").success
    assert f"{E1}/recipe_elapsed" in ask("get_param").results
    value = client.model("PostParamParameterBody", {"value": {"a": 1}})
    assert ask("post_param_parameter", "notes/mine", body=value, new=True).result == {"a": 1}
    assert ask("get_param_parameter", "notes/mine").result == {"a": 1}
    ask("delete_param_parameter", "notes/mine")
    assert "chambers" in ask("get_node").results
    assert ask("get_node_node", "chambers").additional_properties["environments"]
    assert ask("get_session").role == "admin"
    assert ask("get_openapi_json", chamber=True)["openapi"] == "3.1.0"
    journal(client)
    past(client)


def journal(client):
    entry = client.model("PostJournalEnvironmentJsonBody", {"text": "first true leaves"})
    assert client.ask("post_journal_environment", E1, body=entry).text == "first true leaves"
    form = client.part("models").PostJournalEnvironmentFilesBody(
        entry=client.model("PostJournalEnvironmentFilesBodyEntry", {"text": "a photo"}),
        photo=[client.part("types").File(payload=jpeg(), file_name="tray.jpg")],
    )
    saved = client.ask("post_journal_environment", E1, body=form)
    (photo,) = saved.photos
    assert client.ask("get_photo_photo", f"{saved.id}/{photo.name}").payload.read().startswith(b"\xff\xd8")
    found = client.ask("get_journal_environment", E1, search="photo")
    assert [each.id for each in found.entries] == [saved.id]
    assert client.ask("get_photos_environment", E1).photos == []


def past(client):
    wait_until(lambda: len(client.ask("get_runs_environment", E1).runs) == 1)
    client.ask("post_service_service", f"{E1}/start_recipe", body=["demo_day"])
    client.ask("post_service_service", f"{E1}/stop_recipe", body=None)
    wait_until(lambda: len(client.ask("get_runs_environment", E1).runs) == 2)
    newest, oldest = client.ask("get_runs_environment", E1).runs
    assert client.ask("get_run_run", newest.id).short_id == newest.short_id
    assert client.ask("get_figures_run", newest.id).start == newest.started
    assert "<html" in client.ask("get_report_run", newest.id, lang=client.part("models").GetReportRunLang.DE)
    assert "<html" in client.ask("get_compare", run=[newest.id, oldest.id])
    found = client.ask("get_history_environment", E1, variable=["air_temperature"], start=time.time() - 3600)
    assert found.environment == E1
    assert found.events


def parameters(function):
    return {*inspect.signature(function).parameters} - {"client", "body"}


@pytest.mark.long
async def test_every_operation_works_in_a_generated_client(importable, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        started(importable / "data", "--profile", "sim", *home.arguments) as program,
    ):
        async with aiohttp.ClientSession() as session, session.get(f"{program.api}/openapi.json") as answer:
            document = await answer.read()
        await asyncio.to_thread(generate, document, importable)
        client = Generated(program.api)
        try:
            await asyncio.to_thread(use, client)
        finally:
            client.close()
    for operation in ALL:
        function = client.modules[identifier(operation)].sync_detailed
        assert parameters(function) == {each.name for each in operation.query} | {operation.kind} - {""}
        assert ("body" in inspect.signature(function).parameters) == (operation.body is not None)
    assert client.called == {*client.modules} - LEFT_OUT
