"""The fault of a task: the first step that succeeds ends it, and the log has its begin and its end once."""

import logging

import pytest

from growd.runtime.supervisor import TaskFault

LOG = logging.getLogger("growd.task")


@pytest.mark.parametrize("shown_after", [1, 3])
def test_it_is_logged_once_and_ended_by_the_first_success(caplog, shown_after):
    fault = TaskFault(LOG, "it waits", "it goes on", shown_after=shown_after)
    fault.succeeded()
    assert (str(fault), fault.failures) == ("", 0)
    for number in range(1, 5):
        fault.failed(OSError(f"reason {number}"))
        assert (str(fault), fault.failures) == (f"reason {number}", number)
        assert fault.is_lasting is (number >= shown_after)
    fault.succeeded()
    fault.succeeded()
    assert (str(fault), fault.reason, fault.failures) == ("", None, 0)
    assert [each.message for each in caplog.records] == [f"it waits: reason {shown_after}", "it goes on"]
    if shown_after > 1:  # what was not shown ends silently
        fault.failed("busy")
        fault.succeeded()
        assert (str(fault), len(caplog.records)) == ("", 2)
