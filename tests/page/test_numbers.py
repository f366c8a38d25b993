"""Numbers that a person types, and the trend of a value, as the page computes them in each locale."""

import math

import pytest

from support.browser import page_at
from support.page import in_browser, module

pytestmark = in_browser


async def computed(page, name, function, *arguments):
    """What a function of a module of the page returns for each argument."""
    script = f"""async ([name, values]) => {{
        const {{[name]: compute}} = await {module(name)};
        return values.map(value => compute(value));
    }}"""
    return await page.evaluate(script, [function, [*arguments]])


@pytest.mark.parametrize(
    ("locale", "typed"),
    [
        ("en-GB", {"1,000": 1000, "12,345.5": 12345.5, "1.5": 1.5, "1,5": 1.5, "-3": -3, " 7 ": 7}),
        ("de-DE", {"1.000": 1000, "12.345,5": 12345.5, "1,5": 1.5, "1.5": 1.5, "0.500": 0.5, "-3": -3}),
        ("fr-FR", {"1 000": 1000, "12\u202f345,5": 12345.5, "1,5": 1.5, "1.5": 1.5}),
        ("de-CH", {"1\u2019000": 1000, "1'000.5": 1000.5}),
    ],
)
async def test_a_number_is_read_as_the_locale_writes_it(shared, browser, locale, typed):
    async with page_at(browser, f"{shared.address}/_svc/", locale=locale) as page:
        assert await computed(page, "lib/format.js", "parseNumber", *typed) == [*typed.values()]
        wrong = await computed(page, "lib/format.js", "parseNumber", "", "abc", "1.2.3", "5 lx", "1e5", "--1")
        assert all(math.isnan(value) for value in wrong)


async def test_no_zero_has_a_sign(shared, browser):
    async with page_at(browser, f"{shared.address}/_svc/") as page:
        assert await computed(page, "lib/format.js", "number", -0.4, -0.6, 0) == ["0", "-1", "0"]


async def test_a_value_and_the_limit_that_it_is_beyond_look_different(shared, browser):
    beyond = {"variable": "air_temperature", "unit": "degC", "value": 22.504, "limit": 22.5, "release": 20}
    texts = {"over_limit": "limit is 22.500 °C", "was_above": "was 22.504 °C"}
    missed = {"variable": "air_temperature", "unit": "degC", "value": 22.54, "set_point": 22.51}
    async with page_at(browser, f"{shared.address}/_svc/", locale="en-GB") as page:
        given = [{"code": code, "fields": beyond} for code in texts]
        said = await computed(page, "lib/verdict.js", "translated", *given)
        assert [text in words for text, words in zip(texts.values(), said, strict=True)] == [True] * 2, said
        [words] = await computed(
            page, "lib/verdict.js", "translated", {"code": "set_point_missed", "fields": missed}
        )
        assert "22.54 °C" in words
        assert "22.51 °C" in words


async def test_a_trend_is_the_rate_of_the_last_minute_and_only_beyond_the_noise(shared, browser):
    rising = [[5 * i, 20 + 0.1 * i] for i in range(20)]
    noisy = [[5 * i, 20 + 0.1 * (-1) ** i] for i in range(20)]
    turned = [[5 * i, 20 + 0.1 * min(i, 26 - i)] for i in range(16)]
    fallen = [[5 * i, 20 + 0.1 * min(i, 26 - i)] for i in range(30)]
    stepped = [[5 * i, 8000 if i < 9 else 6500 if i < 10 else 6000 + (-1) ** i] for i in range(18)]
    series = rising, noisy, rising[:5], turned, fallen, stepped[:12], stepped
    async with page_at(browser, f"{shared.address}/_svc/") as page:
        found = await computed(page, "lib/reading.js", "rateOf", *series)
    assert found == [pytest.approx(0.02), 0, None, None, pytest.approx(-0.02), None, 0]
