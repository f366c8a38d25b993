"""The two files of the outputs of the last run, and bringing these to rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_drivers.last_run import FILE_NAMES, LastRun, SafePin, last_run, rest_last_run
from growd_drivers.pins import kept_pins
from support.lasting_pins import LastingPins

RUN = LastRun(
    [SafePin("valve", 23, 0), SafePin("lamp", 24, 1), SafePin("white", 18, 1, 0)],
    network={"fan": {"url": "http://10.0.0.5"}},
    library="RPi.GPIO",
)
DAMAGES = {
    "missing": None,
    "empty": b"",
    "torn": RUN.encoded()[:-30],
    "another number": RUN.encoded().replace(b'"pin": 23', b'"pin": 22'),
    "no object": b"[1]",
    "a number": b"5",
    "no text": b"\xff\xfe",
    "no check": b"{}",
    "a pin out of range": LastRun([SafePin("valve", 99, 0)]).encoded(),
    "a level out of range": LastRun([SafePin("valve", 23, 2)]).encoded(),
}


def save(data, *contents):
    for name, content in zip(FILE_NAMES, contents, strict=True):
        if content is not None:
            (data / name).write_bytes(content)


def test_without_files_there_are_no_outputs_and_one_that_cannot_be_opened_does_not_hide_the_other(tmp_path):
    assert last_run(tmp_path) == (LastRun(), "")
    (tmp_path / FILE_NAMES[0]).mkdir()
    save(tmp_path, None, RUN.encoded())
    assert last_run(tmp_path)[0] == RUN


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_either_file_is_enough_and_damage_of_each_is_reported(tmp_path, damage):
    for damaged, name in enumerate(FILE_NAMES):
        data = tmp_path / name
        data.mkdir()
        contents = [RUN.encoded(), RUN.encoded()]
        contents[damaged] = damage
        save(data, *contents)
        run, trouble = last_run(data)
        assert run == RUN
        assert trouble.count("can't be read") == (damage is not None)
        assert damage is None or str(data / name) in trouble
    if damage is not None:
        save(data, damage, damage)
        run, trouble = last_run(data)
        assert run == LastRun()
        assert trouble.count("can't be read") == 2


@given(content=st.binary(max_size=60))
def test_no_content_is_an_exception(tmp_path_factory, content):
    data = tmp_path_factory.getbasetemp()
    save(data, content, b"[" * 65_536)
    assert last_run(data)[0] == LastRun()


@pytest.mark.parametrize("library", ["gpiod", "RPi.GPIO"])
def test_what_is_still_an_output_is_brought_to_rest_and_nothing_else(tmp_path, library):
    pins = LastingPins(tmp_path)
    pins.left({23: 1, 5: 1})
    outputs = [SafePin("gone", 99 % 28, 0), SafePin("valve", 23, 0), SafePin("a bus now", 24, 1)]
    save(tmp_path, b"damaged", LastRun(outputs, library=library).encoded())
    with pins.here():
        rest_last_run(tmp_path)
        assert pins.levels() == {23: 0, 5: 1}
        assert {*kept_pins(library).claimed} == {23}


def test_a_pin_that_is_refused_stops_no_other(tmp_path):
    pins = LastingPins(tmp_path)
    pins.left({23: 1})
    outputs = [SafePin("white", 18, 0, 7), SafePin("valve", 23, 0)]  # there is no pwmchip7
    save(tmp_path, LastRun(outputs).encoded(), None)
    with pins.here():
        rest_last_run(tmp_path)
    assert pins.levels() == {23: 0}


@pytest.mark.parametrize("run", [LastRun([SafePin("valve", 23, 0)], is_simulated=True), LastRun()])
def test_after_a_simulated_run_and_without_outputs_nothing_is_driven(tmp_path, run):
    pins = LastingPins(tmp_path)
    pins.left({23: 1})
    save(tmp_path, run.encoded(), run.encoded())
    with pins.here():
        rest_last_run(tmp_path)
    assert pins.levels() == {23: 1}


def test_another_machine_and_a_keeper_that_cannot_start_are_no_exceptions(tmp_path, monkeypatch):
    save(tmp_path, LastRun([SafePin("valve", 23, 0)]).encoded(), None)
    with LastingPins(tmp_path).here({}):
        rest_last_run(tmp_path)
        assert not kept_pins("gpiod").claimed
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with LastingPins(tmp_path).here():
        rest_last_run(tmp_path)
