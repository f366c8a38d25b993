"""Names and months of the cloud's databases."""

from growd_cloud.months import CloudNames

NOW = 1_795_000_000.0  # 2026-11-18


def test_a_point_belongs_to_its_month_in_utc():
    databases = {
        "1793491199999": "a_points_2026_10",
        "1793491200000": "a_points_2026_11",
        "1798761599999": "a_points_2026_12",
        "1798761600000": "a_points_other",
        "1420070400000": "a_points_2015_01",
        "1420070399999": "a_points_other",
        "9999999999999": "a_points_other",
    }
    ids = {each: f"0123456789ab:{each}-0123456789" for each in databases}
    assert {each: CloudNames("a_").of_document("points", ids[each], NOW) for each in ids} == databases


def test_the_databases_of_now_are_those_of_two_months():
    assert CloudNames().series(NOW) == [
        "points_2026_11",
        "points_2026_12",
        "events_2026_11",
        "events_2026_12",
        "points_other",
        "events_other",
    ]
