"""The folder of photos: what is kept, what is thinned, and what a kill leaves."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from growd.config.camera import PhotoOptions
from growd_camera.album import Album, AlbumError, Taken
from growd_camera.shot import Leaves, Prepared

DEVICE = "0123456789ab"
START = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
DAY_S = 86_400.0


@pytest.fixture
def album(tmp_path, monkeypatch):
    def made(hourly_days=60.0, **options):
        monkeypatch.setattr("growd_camera.album.HOURLY_DAYS", hourly_days)
        album = Album(tmp_path, DEVICE, PhotoOptions(**options), UTC)
        album.load()
        return album

    return made


def take(album, at, *, size=100, run="", lit=True):
    place = album.begin(at)
    place.target.write_bytes(b"x")
    place.small.write_bytes(b"x")
    leaves = Leaves(50.0 if lit else None, 0.5 if lit else None)
    picture = Prepared(8, 8, size, 10, f"{int(at):064x}"[::-1], leaves)
    return album.keep(place, picture, Taken("environment_1", "top", at, run))


def days_old(album, now):
    ages = [int((now - photo.time) // DAY_S) for photo in album.newest_first("environment_1")]
    return Counter(ages)


def test_photos_are_thinned_by_age_and_stay_within_the_budget(album):
    small = album(budget_mb=10, keep_days=3, hourly_days=6)
    for number in range(12 * 48):  # every half hour, 20 kB each
        take(small, START + 1_800 * number, size=20_000, lit=12 <= number % 48 < 44)
    now = START + 12 * DAY_S - 1
    small.thin(now)
    by_age = days_old(small, now)
    assert [by_age[age] for age in (0, 1, 2)] == [48, 48, 48]
    assert [by_age[age] for age in (4, 5)] == [24, 24]
    assert [by_age[age] for age in (8, 9, 10)] == [1, 1, 1]
    assert small.size <= 10e6
    daily = [photo for photo in small.newest_first("environment_1") if now - photo.time > 8 * DAY_S]
    assert {datetime.fromtimestamp(photo.time, UTC).hour for photo in daily} == {12}
    assert all(photo.canopy_cover is not None for photo in daily)
    again = album(budget_mb=10)
    assert again.size == small.size
    assert [*again.newest_first("environment_1")] == [*small.newest_first("environment_1")]


def test_the_oldest_go_first_when_the_budget_is_short_but_those_of_runs_stay(album):
    short = album(budget_mb=10, keep_days=3_650)
    for number in range(10 * 24):
        run = "run-1" if 48 <= number < 120 else ""
        take(short, START + 3_600 * number, size=200_000, run=run)
        assert short.size <= 10e6 + 200_010
    kept = [*short.newest_first("environment_1")]
    of_run = [photo for photo in kept if photo.recipe_run]
    assert of_run[0].time == START + 119 * 3_600
    assert of_run[-1].time == START + 48 * 3_600
    assert {int((photo.time - START) // DAY_S) for photo in of_run} == {2, 3, 4}
    assert len(of_run) < 72  # there was no room for all
    assert len([photo for photo in kept if photo.time >= START + 9 * DAY_S]) == 24


def test_photos_that_are_all_kept_for_longer_are_not_thinned_before(album):
    all_of = album(budget_mb=10, keep_days=90)
    for number in range(4):
        take(all_of, START + 600 * number, size=1_000)
    all_of.thin(START + 70 * DAY_S)
    assert len(all_of.all()) == 4


def test_photos_of_runs_stay_at_any_age_while_there_is_room(album):
    old = album(budget_mb=10, keep_days=1, hourly_days=2)
    for number in range(5 * 24):
        take(old, START + 3_600 * number, size=1_000, run="run-1" if number < 36 else "")
    old.thin(START + 5 * DAY_S)
    kept = [*old.newest_first("environment_1")]
    assert len([photo for photo in kept if photo.recipe_run]) == 36
    assert len(kept) < 36 + 72


def test_photos_of_runs_that_fill_the_budget_are_not_deleted_for_new_ones(album):
    full = album(budget_mb=10, keep_days=0, hourly_days=0)
    for number in range(50):
        take(full, START + DAY_S * number, size=200_000, run="run-1")
    with pytest.raises(AlbumError):
        full.begin(START + DAY_S * 50)
    assert len([*full.newest_first("environment_1")]) == 50
    assert full.problem


def test_a_small_budget_thins_the_last_day_of_a_run_before_it_stops_the_cameras(album):
    small = album(budget_mb=10)
    for number in range(144):  # every ten minutes, twice the budget
        take(small, START + 600 * number, size=140_000, run="run-1")
    kept = [*small.newest_first("environment_1")]
    assert kept[0].time == START + 600 * 143
    hours = {int(photo.time // 3_600) for photo in kept}
    assert len(hours) == 24
    assert small.problem is None


def test_a_deleted_photo_is_remembered_until_it_is_forgotten(album):
    first = album(keep_days=0, hourly_days=0)
    photos = [take(first, START + 3_600 * number) for number in range(3)]
    first.thin(START + DAY_S * 10)
    gone = {photo.id for photo in photos} - {photo.id for photo in first.all()}
    assert len(gone) == 2
    again = album()
    assert {*again.gone} == gone == {*first.gone}
    again.forget(gone)
    assert album().gone == {}


def test_photos_that_somebody_deleted_stop_no_camera(album, tmp_path):
    some = album(keep_days=0, hourly_days=0)
    photos = [take(some, START + 600 * number) for number in range(4)]
    for file in tmp_path.glob("photos/*/*/*/*"):
        file.unlink()
    some.thin(START + DAY_S * 10)
    assert take(some, START + DAY_S * 10) in some.all()
    assert len(some.gone) == len(photos) - 1


def test_the_same_picture_twice_in_a_second_is_two_photos(album):
    some = album()
    for at in (START + 0.25, START + 0.75):
        take(some, at)
    one, other = some.all()
    assert one.sha256 == other.sha256
    assert some.file_of(one) != some.file_of(other)


def test_a_run_is_found_by_the_short_form_of_its_id(album):
    some = album()
    run = f"{DEVICE}:1772323200000-0a1b2c3d4e"
    of_run = take(some, START, run=run)
    take(some, START + 60, run=f"{DEVICE}:1772323200000-ffffffffff")
    for text in (run, "0a1b2c", "0A1B"):
        assert [*some.newest_first("environment_1", run=text)] == [of_run]
    assert not [*some.newest_first("environment_1", run="0a")]


def test_a_photo_that_was_not_finished_is_not_there_after_the_start(album, tmp_path):
    first = album()
    whole, torn = take(first, START), take(first, START + 60)
    place = first.begin(START + 120)
    place.target.write_bytes(b"half")
    first.file_of(torn).unlink()  # killed before the last step
    first.file_of(whole).with_name("damaged.json").write_bytes(b"{")
    again = album()
    assert [*again.newest_first("environment_1")] == [whole]
    assert not [*(tmp_path / "photos").glob("*.part")]


def test_photos_are_listed_newest_first_by_camera_and_span(album):
    some = album()
    photos = [take(some, START + 60 * number) for number in range(10)]
    listed = some.newest_first("environment_1", "top", start=START + 120, end=START + 360)
    assert [*listed] == photos[5:1:-1]
    assert not [*some.newest_first("environment_1", "side")]
    assert not [*some.newest_first("shelf_2")]
    assert some.find(photos[3].id) == photos[3]
