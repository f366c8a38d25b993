"""axe-core finds no violation of the accessibility rules on any view, in both themes and at both widths."""

import pytest
from playwright.async_api import expect

from support.axe import violations
from support.browser import DESK, PHONE, page_at
from support.page import PLACE, VIEWS, address, card, connected, in_browser, verdict

pytestmark = in_browser

LOOKS = [(theme, width) for theme in ("light", "dark") for width in (PHONE, DESK)]
NAMES = [f"{theme}-{width['width']}" for theme, width in LOOKS]


async def open_all(page):
    """Open what is folded."""
    await page.evaluate(
        "document.querySelectorAll('main details, section details').forEach(each => (each.open = true))"
    )


async def there(page, view):
    """Wait until a view has its content."""
    await connected(page)
    main = page.get_by_role("main")
    await expect(main.get_by_text("Loading")).to_have_count(0)
    if view == "charts":
        await expect(page.locator(".over").first).to_be_visible()
    elif view == "now":
        await expect(main.locator(".spark path").first).to_be_attached()
    else:
        await expect(main.get_by_role("heading").nth(1)).to_be_attached()


async def test_the_view_now_on_a_phone(shared, browser):
    async with page_at(browser, address(shared)) as page:
        await there(page, "now")
        assert await violations(page) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("theme", "width"), LOOKS, ids=NAMES)
async def test_every_view(shared, browser, client, theme, width):
    await client.call(f"{PLACE}/start_recipe", recipe_id="lettuce_days")
    found = []
    queries = [
        *((view, "") for view in VIEWS),
        ("recipes", "recipe=demo_day"),
        ("recipes", "edit=lettuce_days"),
    ]
    async with page_at(browser, "about:blank", viewport=width, color_scheme=theme) as page:
        for view, query in queries:
            await page.goto(address(shared, view, query))
            await there(page, view)
            await open_all(page)
            found += [f"{view} {query}: {each}" for each in await violations(page)]
    assert found == []


@pytest.mark.nightly
@pytest.mark.parametrize(("theme", "width"), LOOKS, ids=NAMES)
async def test_with_problems_a_hold_and_commands_by_hand(shared, browser, client, theme, width):
    await client.call("simulator/inject_fault", device="scd30", kind="absent")
    await client.publish("desired/light_illuminance", 5000)
    await client.call("hold/set", reason="")
    async with page_at(browser, address(shared), viewport=width, color_scheme=theme) as page:
        await expect(card(page, "CO₂")).to_contain_text("no reading")
        await expect(verdict(page)).to_contain_text("All outputs are held safe")
        found = await violations(page)
        await verdict(page).get_by_role("button", name="Show").click()
        await expect(page.get_by_role("dialog", name="Problems")).to_contain_text("CO₂ sensor")
        found += await violations(page)
        await page.goto(address(shared, "now", "of=air_carbon_dioxide"))
        await page.reload()
        await expect(page.get_by_role("dialog", name="CO₂").locator(".over").first).to_be_visible()
        found += await violations(page)
        await page.goto(address(shared, "devices"))
        await there(page, "devices")
        await open_all(page)
        found += await violations(page)
        await page.goto(address(shared))
        await page.get_by_role("button", name="Release").first.click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        found += await violations(page)
    assert found == []


@pytest.mark.nightly
@pytest.mark.parametrize(("theme", "width"), LOOKS, ids=NAMES)
async def test_without_connection_with_a_login_and_with_a_mistake(shared, browser, theme, width):
    async with page_at(browser, address(shared), viewport=width, color_scheme=theme) as page:
        await there(page, "now")
        await page.get_by_role("button", name="Arrange tiles").click()
        await expect(page.get_by_role("dialog", name="Arrange tiles")).to_be_visible()
        found = await violations(page)
        await page.goto(address(shared, "now", "of=light_illuminance"))
        await page.get_by_label("Set point of Light", exact=True).fill("bright")
        found += await violations(page)
        await page.keyboard.press("Escape")
        await page.keyboard.press("Escape")
        await page.route("**/_svc/api/**", lambda route: route.abort())
        await expect(verdict(page)).to_contain_text("All values are old")
        found += await violations(page)
        await page.unroute_all(behavior="ignoreErrors")
        refusal = {"ERROR": "a login is required"}
        await page.route("**/node/status", lambda route: route.fulfill(status=401, json=refusal))
        await expect(page.get_by_label("Password")).to_be_visible()
        found += await violations(page)
        await page.unroute_all(behavior="ignoreErrors")
    assert found == []
