"""The backlog of a channel: bounded, in order, and no end without its start."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from growd_alerts.backlog import Backlog, SavedBacklog
from growd_alerts.messages import Alert
from growd_alerts.rules import AlertPhase


def alert(name, **more):
    values = {"rule": "r", "kind": "device_failed", "severity": "warning", "subject": name}
    return Alert(id=name, since=1_000.0, told_at=1_100.0, text=f"{name} failed", **(values | more))


def phases(backlog):
    batch = backlog.batch()
    return [] if batch is None else [(entry.alert.id, str(entry.phase)) for entry in batch.entries]


def deliver(backlog):
    batch = backlog.batch()
    assert batch is not None
    backlog.delivered(batch)
    return [(entry.alert.id, str(entry.phase)) for entry in batch.entries]


def test_an_alert_that_ends_before_it_is_sent_is_sent_once():
    backlog = Backlog()
    backlog.put(AlertPhase.START, alert("a"))
    backlog.put(AlertPhase.REPEAT, alert("a"))
    backlog.put(AlertPhase.END, alert("a", ended=1_200.0))
    assert deliver(backlog) == [("a", "over")]
    assert backlog.batch() is None
    assert len(backlog) == 0


def test_an_alert_that_ends_while_its_start_is_sent_makes_room_and_its_end_is_delivered():
    backlog = Backlog(most=1)
    backlog.put(AlertPhase.START, alert("a"))
    batch = backlog.batch()
    backlog.put(AlertPhase.END, alert("a", ended=1_200.0))
    backlog.put(AlertPhase.START, alert("b"))
    backlog.put(AlertPhase.START, alert("c"))  # there is room for one
    assert batch is not None
    backlog.delivered(batch)
    assert phases(backlog) == [("a", "end"), ("b", "start")]
    assert backlog.left_out == 1


def test_a_queued_alert_does_not_change_later():
    backlog, changing = Backlog(), alert("a")
    backlog.put(AlertPhase.START, changing)
    changing.text = "something else"
    batch = backlog.batch()
    assert batch is not None
    assert batch.entries[0].alert.text == "a failed"


def test_repeats_are_dropped_first_and_then_alerts_that_are_over():
    backlog = Backlog(most=3)
    backlog.put(AlertPhase.START, alert("open already"))
    deliver(backlog)
    backlog.put(AlertPhase.REPEAT, alert("open already"))
    backlog.put(AlertPhase.START, alert("over"))
    backlog.put(AlertPhase.END, alert("over", ended=1_200.0))
    backlog.put(AlertPhase.START, alert("open"))
    backlog.put(AlertPhase.START, alert("next"))
    assert phases(backlog) == [("over", "over"), ("open", "start"), ("next", "start")]
    backlog.put(AlertPhase.END, alert("open already", ended=1_200.0))
    assert phases(backlog) == [("open", "start"), ("next", "start"), ("open already", "end")]
    assert backlog.left_out == 2


def test_a_dropped_start_is_sent_with_its_repeat_and_its_end_never_alone():
    backlog = Backlog(most=1)
    backlog.put(AlertPhase.START, alert("a"))
    backlog.put(AlertPhase.START, alert("late"))
    backlog.put(AlertPhase.START, alert("never"))
    backlog.put(AlertPhase.END, alert("never", ended=1_200.0))
    assert deliver(backlog) == [("a", "start")]
    assert backlog.left_out == 0  # the message said that two are missing
    backlog.put(AlertPhase.REPEAT, alert("late"))
    assert deliver(backlog) == [("late", "start")]


class Line:
    """Alerts on one side, a receiver on the other, and a backlog between them."""

    def __init__(self, most):
        self.backlog = Backlog(most=most)
        self.opened = {}
        self.believed = set()
        self.most = most
        self._numbers = iter(range(1_000))
        self._sent = None

    def open(self, name):
        if name not in self.opened:
            self.opened[name] = alert(f"{name}{next(self._numbers)}")
            self.backlog.put(AlertPhase.START, self.opened[name])

    def close(self, name):
        if name in self.opened:
            closed = self.opened.pop(name)
            closed.ended = 1_200.0
            self.backlog.put(AlertPhase.END, closed)

    def repeat(self, name):
        if name in self.opened:
            self.backlog.put(AlertPhase.REPEAT, self.opened[name])

    def send(self, _=""):
        if self._sent is None:
            self._sent = self.backlog.batch()

    def deliver(self, _=""):
        """What was sent arrives, else what there is to send."""
        self.send()
        batch, self._sent = self._sent, None
        if batch is None:
            return
        for entry in batch.entries:
            assert (entry.alert.id in self.believed) == (entry.phase in (AlertPhase.REPEAT, AlertPhase.END))
            if entry.phase is AlertPhase.START:
                self.believed.add(entry.alert.id)
            elif entry.phase is AlertPhase.END:
                self.believed.remove(entry.alert.id)
        self.backlog.delivered(batch)

    def restart(self, _):
        self._sent = None  # it did not arrive
        saved = msgspec.json.decode(msgspec.json.encode(self.backlog.saved()), type=SavedBacklog)
        self.backlog = Backlog(saved, self.most)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "close", "repeat", "send", "deliver", "restart"]),
            st.sampled_from("abcdef"),
        ),
        max_size=80,
    ),
    st.integers(1, 4),
)
def test_receivers_get_starts_before_ends_and_all_open_alerts(steps, most):
    line = Line(most)
    for step, name in steps:
        getattr(line, step)(name)
        assert line.backlog.left_out >= 0
        assert len(line.backlog) <= 2 * most + 6  # ends stay, and what a message under way starts
    line.deliver()
    for name in line.opened:
        line.deliver()
        line.repeat(name)
    line.deliver()
    assert line.believed == {each.id for each in line.opened.values()}
