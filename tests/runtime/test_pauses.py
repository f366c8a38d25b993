from growd.runtime.pauses import Pauses


def test_pauses_double_up_to_a_limit_and_differ():
    pauses = Pauses(1.0, 30.0)
    for failures, whole in ((1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (1_000_000, 30.0)):
        found = [pauses.after(failures) for _ in range(50)]
        assert whole / 2 <= min(found) < max(found) <= whole


def test_pauses_without_a_random_part():
    pauses = Pauses(5.0, 60.0, least=1.0)
    assert [pauses.after(failures) for failures in range(1, 7)] == [5, 10, 20, 40, 60, 60]
    assert Pauses(3_600.0, 60.0, least=1.0).after(4) == 3_600.0  # the first pause is above the limit
