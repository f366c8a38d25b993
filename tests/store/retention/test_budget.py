"""The room of the database: the narrowest limit, and which compaction is worth it."""

from growd.config import Retention, StorageRuleOptions, Store
from growd.store.retention.budget import budget, least_free, worth_compacting
from growd.store.retention.sizes import DatabaseFile, DiskUse
from growd.store.storage_rule import sparser

GB = 1_000_000_000
DISK = 16 * GB


def test_the_narrowest_limit_counts():
    use = DiskUse(2 * GB, GB, DISK, 8 * GB)
    assert budget(Retention(), use).limit == 2 * GB + 8 * GB - 0.5 * GB
    assert budget(Retention(), DiskUse(2 * GB, GB, DISK, 15 * GB)).limit == 0.7 * DISK
    assert budget(Retention(budget_mb=3_000.0), use).limit == 3 * GB
    assert budget(Retention(), DiskUse(2 * GB, GB, None, None)).limit == float("inf")
    assert not budget(Retention(), DiskUse(2 * GB, GB, None, None)).is_short


def test_shortage_begins_at_85_percent_and_ends_at_80():
    options = Retention(budget_mb=1_000.0)

    def of(percent):
        found = budget(options, DiskUse(percent * 6_000_000, percent * 4_000_000, None, None))
        return found.is_enough, found.is_short, found.is_full

    assert of(80) == (True, False, False)
    assert of(84) == (False, False, False)
    assert of(86) == (False, True, False)
    assert of(96) == (False, True, True)


def test_a_small_disk_keeps_a_tenth_free():
    assert least_free(16 * GB) == 500_000_000
    assert least_free(2 * GB) == 200_000_000


def test_a_compaction_is_worth_a_tenth_of_all_and_must_fit():
    index = DatabaseFile("points", "svc", 5 * GB, 3 * GB)
    points = DatabaseFile("points", "", 2 * GB, GB)
    events = DatabaseFile("events", "", GB, GB - 1)
    use = DiskUse(8 * GB, 3 * GB, None, None, (index, points, events))

    def chosen(limit_mb, **options):
        settings = Retention(budget_mb=limit_mb, **options)
        return worth_compacting(budget(settings, use), use)

    assert chosen(12_000.0) == index
    assert chosen(9_500.0) == points  # the copy of the index would be above the limit
    assert chosen(8_500.0) is None
    settled = DiskUse(8 * GB, 3 * GB, None, None, (events,))
    settings = Retention(budget_mb=12_000.0)
    assert worth_compacting(budget(settings, settled), settled) is None


def test_a_compaction_may_exceed_the_limit_where_the_disk_has_room():
    index = DatabaseFile("points", "svc", 5 * GB, 3 * GB)
    settings = Retention(budget_mb=5_000.0)
    roomy, tight = (DiskUse(5 * GB, 3 * GB, DISK, free, (index,)) for free in (4 * GB, 3 * GB))
    assert worth_compacting(budget(settings, roomy), roomy) == index
    assert worth_compacting(budget(settings, tight), tight) is None


def test_sparser_settings_store_at_most_one_value_in_the_interval():
    rules = {"air_temperature": StorageRuleOptions(minimum_interval_s=1.0, maximum_interval_s=30.0)}
    settings = sparser(Store(variable=rules), 60.0)
    for name in ("air_temperature", "air_humidity"):
        rule = settings.rule_of(name)
        assert rule.minimum_interval_s == 60
        assert (rule.maximum_interval_s or 0) >= 60
    slow = sparser(
        Store(minimum_interval_s=120.0, variable={"x": StorageRuleOptions(absolute_band=1.0)}), 60.0
    )
    assert slow.rule_of("x").minimum_interval_s == 120
    assert slow.rule_of("x").absolute_band == 1
