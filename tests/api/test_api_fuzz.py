"""The API, fuzzed by its own OpenAPI document: schemathesis tries what it allows, and what it does not."""

from collections import Counter

import pytest
import schemathesis
from schemathesis.engine import events, from_schema

from growd.api.operation import Limits
from support.daemon import serving_in_a_thread
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.long

EXAMPLES = 2  # for each operation, beside the boundary cases that the document names


def configuration(base):
    """The same cases each time: a fault that they find stays found until it is mended."""
    return schemathesis.Config.from_dict(
        {
            "base-url": base,
            "seed": 1,
            "request-timeout": PATIENCE_S,
            "continue-on-failure": True,
            "generation": {"deterministic": True, "max-examples": EXAMPLES, "database": "none"},
            "phases": {
                "coverage": {"unexpected-methods": ["DELETE", "PATCH", "TRACE"]},
                "stateful": {"enabled": False},
            },
        }
    )


def failures(scenario):
    """What a scenario's checks found, with the request that shows it."""
    for case, checks in scenario.recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                request = scenario.recorder.interactions[case].request
                yield f"{request.method} {request.uri} {request.body!r}: {check.failure_info.failure}"


@pytest.mark.timeout(240)
def test_every_answer_is_as_the_document_says(caplog):
    # a stream does not end, so its operation is left out; the next message is waited for a moment only
    with serving_in_a_thread(Limits(topic_data_s=0.001)) as daemon:
        base = f"{daemon.origin}{daemon.api.prefix}"
        document = schemathesis.openapi.from_url(f"{base}/openapi.json?chamber").raw_schema
        schema = schemathesis.openapi.from_dict(document, config=configuration(base))
        schema.validate()
        found, statuses, operations = [], Counter(), set()
        for event in from_schema(schema.exclude(path_regex="^/topic_stream")).execute():
            assert not isinstance(event, (events.NonFatalError, events.FatalError)), event
            if isinstance(event, events.ScenarioFinished):
                found += failures(event)
                operations.add(event.label)
                answers = [interaction.response for interaction in event.recorder.interactions.values()]
                statuses.update(answer.status_code for answer in answers if answer is not None)
        assert daemon.api._calls == set()
        assert len(daemon.api.streams) == 0
    assert found == []
    assert max(statuses) < 500
    assert all(statuses[status] > 20 for status in (200, 400, 404, 405, 415)), statuses
    listed = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert operations == {name for name in listed if "topic_stream" not in name}
    assert [record for record in caplog.records if record.name.startswith("growd")] == []
