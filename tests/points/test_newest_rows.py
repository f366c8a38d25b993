"""The list `csv` made by growd: the newest row of each key, and no more pages than it needs."""

import json
from contextlib import aclosing
from itertools import groupby
from urllib.parse import parse_qs

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_analysis.points.csv_export import NewestRows, parse_csv_list
from growd_analysis.points.csv_format import Row


@given(
    keys=st.lists(st.integers(0, 4), max_size=40),
    descending=st.booleans(),
    skip=st.integers(0, 9),
    limit=st.none() | st.integers(0, 50),
)
@pytest.mark.parametrize("size", [1, 3, 50])
def test_the_greatest_id_of_each_key_is_taken(size, keys, descending, skip, limit):
    rows = sorted(((key, number) for number, key in enumerate(keys)), reverse=descending)
    expected = [max(group) for _, group in groupby(rows, key=lambda row: row[0])][skip:][:limit]
    newest = NewestRows(descending=descending, skip=skip, limit=limit)
    found = []
    for start in range(0, len(rows), size):
        if newest.done:
            break
        part = rows[start : start + size]
        found += newest.take([Row(msgspec.Raw(b"%d" % key), (key, number)) for key, number in part])
    found += newest.end()
    assert [row.value for row in found] == expected


async def test_a_list_reads_no_page_behind_its_limit_of_keys():
    queries = []

    async def fetch(query, _most):
        queries.append(query)
        asked = {
            name: json.loads(values[0])
            for name, values in parse_qs(query).items()
            if name != "startkey_docid"
        }
        first = asked.get("startkey", 0)
        rows = [{"id": "d", "key": n, "value": {"_id": "d"}} for n in range(first, first + asked["limit"])]
        return json.dumps({"rows": rows}).encode()

    table = parse_csv_list("by_variable", "group_level=4&limit=2&cols=%5B%22_id%22%5D")
    assert table is not None
    async with aclosing(table.pieces(fetch)) as pieces:
        assert b"".join([piece async for piece in pieces]) == b"_id\r\nd\r\nd\r\n"
    assert len(queries) <= 2  # the second is read ahead
