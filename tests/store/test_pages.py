"""A view read page by page; tests/points/test_csv_export.py reads whole views."""

import json
from urllib.parse import parse_qs

import msgspec
import pytest

from growd.store.errors import PageError
from growd.store.reading.pages import RowPosition, ViewPages, ViewRange, slices
from support.rows import each


def row(key, docid, **fields):
    return {"id": docid, "key": key, "value": {"_id": docid, **fields}}


def answer(rows):
    return json.dumps({"total_rows": 1, "offset": 0, "rows": rows}).encode()


def told(query):
    """The first value of each parameter of a query string."""
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


def page(rows, query):
    """The answer of a database; keys are numbers."""
    asked = told(query)
    if "startkey" in asked:
        place = (json.loads(asked["startkey"]), asked["startkey_docid"])
        rows = [row for row in rows if (row["key"], row["id"]) >= place]
    return answer(rows[: int(asked["limit"])])


def read(rows, selection, after=None):
    """All rows, and the number of pages."""
    way = ViewPages(selection, after)
    found = []
    number = 0
    while not way.done:
        found += way.take(page(rows, way.query()))
        number += 1
    return [json.loads(bytes(text)) for text in found], number


def test_the_first_page_is_small_and_later_ones_are_large():
    rows = [row(number, "d") for number in range(5_000)]
    assert read(rows, ViewRange())[1] == 1 + 3  # 100, 2 000, 2 000, 900


def test_pages_of_large_rows_are_short():
    way = ViewPages(ViewRange())
    way.query()
    way.take(answer([row(number, "d", text="x" * 100_000) for number in range(100)]))
    assert told(way.query())["limit"] == str(10 + 1)


def test_the_first_query_has_the_parameters_of_the_range():
    selection = ViewRange("%5B1%5D", ("endkey=[2]", "inclusive_end=false"), True, 3, 7)
    assert ViewPages(selection).query() == (
        "reduce=false&limit=7&endkey=[2]&inclusive_end=false&descending=true&startkey=%5B1%5D&skip=3"
    )


def test_later_queries_begin_at_the_last_row_and_leave_the_index_alone():
    selection = ViewRange("%5B1%5D", ("endkey=[2]",), False, 3, 100)
    way = ViewPages(selection, RowPosition('["ä",1.5]', "a+b"))
    assert way.query() == (
        "reduce=false&limit=101&endkey=[2]"
        "&startkey=%5B%22%C3%A4%22%2C1.5%5D&startkey_docid=a%2Bb&update=false"
    )


def test_it_resumes_behind_a_row():
    rows = [row(number, "d") for number in range(9)]
    assert read(rows, ViewRange(), RowPosition("4", "d"))[0] == rows[5:]
    assert read(rows[:4] + rows[5:], ViewRange(), RowPosition("4", "d"))[0] == rows[5:]  # it is deleted


def test_the_number_of_rows_can_be_reduced_to_one():
    way = ViewPages(ViewRange())
    asked = [told(way.query())["limit"]]
    while way.ask_for_fewer():
        asked.append(told(way.query())["limit"])
    assert asked == ["100", "12", "1"]


@each(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"rows":1}',
        b'{"rows":[1]}',
        b'{"rows":[{"id":1,"key":2}]}',
        b'{"rows":["\\ud8',
    ],
)
def test_an_answer_that_is_no_page_is_refused(body):
    way = ViewPages(ViewRange())
    way.query()
    with pytest.raises(PageError, match="not a page of a view"):
        way.take(body)
    assert not way.done


@pytest.mark.parametrize(("descending", "docid"), [(False, "a"), (True, "c")])
def test_a_page_that_begins_at_another_document_is_refused(descending, docid):
    way = ViewPages(ViewRange(descending=descending), RowPosition("1", "b"))
    way.query()
    with pytest.raises(PageError, match="does not begin a page"):
        way.take(answer([row(1, docid)]).replace(b'"key": 1', b'"key":1'))


def test_half_a_surrogate_pair_is_read():
    rows = [row(1, "a", text="\ud800"), row(2, "b", text="x"), row(3, "c", text="\udfff")]
    assert read(rows, ViewRange(limit=3))[0] == rows
    way = ViewPages(ViewRange())
    way.query()
    way.take(answer([*rows] * 34))
    assert way.position == RowPosition("3", "c")
    assert "startkey_docid=c" in way.query()


def test_a_page_is_split_into_slices():
    assert [len(part) for part in slices([msgspec.Raw(b"1")] * 250)] == [100, 100, 50]


def test_a_row_deleted_meanwhile_does_not_exceed_the_limit():
    rows = [row(number, f"d{number:03}") for number in range(300)]
    way = ViewPages(ViewRange(limit=200))
    found = way.take(page(rows, way.query()))
    del rows[len(found) - 1]  # the one that the next page begins with
    for _ in range(10):
        if not way.done:
            found += way.take(page(rows, way.query()))
    assert way.done
    assert len(found) == 200
