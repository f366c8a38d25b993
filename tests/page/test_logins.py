"""The page with a login of the database's users, and with several environments."""

from playwright.async_api import expect

from support.browser import DESK, PHONE, opened
from support.guarded import ROLES, users_of
from support.page import VIEWS, address, connected, in_browser
from support.program import started
from support.session_server import ADMIN, session_server

pytestmark = in_browser

SHELVES = """
[simulator]
enabled = true
[[sensor]]
name = "air"
kind = "scd30"
[[light.channel]]
name = "white"
pin = 12
[[chamber.shelf_2.sensor]]
name = "lux"
kind = "bh1750"
interval_s = 1.0
bus = 3
"""


async def log_in(page, login):
    await page.get_by_label("User").fill(login[0])
    await page.get_by_label("Password").fill(login[1])
    await page.get_by_role("button", name="Log in", exact=True).last.click()


async def test_a_login_shows_the_chamber_and_a_role_its_controls(tmp_path, browser):
    options = ("--profile", "sim", "--speed", "10", "--set", "http.access=couchdb")
    async with session_server() as database:
        url = database.url.replace("://", f"://{ADMIN[0]}:{ADMIN[1]}@")
        async with (
            users_of(database.url, ADMIN) as users,
            started(tmp_path, *options, "--set", f"couchdb.url={url}") as program,
        ):
            reader, operator = [await users.add(*ROLES[role]) for role in ("reader", "operator")]
            async with opened(browser, address(program), viewport=PHONE) as tab:
                page = tab.page
                await expect(page.get_by_text("a login is required")).to_be_visible()
                await expect(page.get_by_role("article")).to_have_count(0)
                await log_in(page, (reader[0], "wrong"))
                await expect(page.get_by_role("alert").filter(has_text="incorrect")).to_be_visible()
                await log_in(page, reader)
                await connected(page)
                await expect(page.get_by_role("article").first).to_be_visible()
                for view in VIEWS:
                    await page.goto(address(program, view))
                    await expect(page.get_by_role("button", name="All safe")).to_have_count(0)
                    for name in ("Set", "Save", "Inject", "New", "Start", "Stop", "on", "off"):
                        await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
                await page.get_by_role("banner").get_by_text(reader[0]).click()
                await expect(page.get_by_text("may only read")).to_be_visible()
                await page.get_by_role("button", name="Log out").click()
                await expect(page.get_by_text("a login is required")).to_be_visible()
                await log_in(page, operator)
                await expect(page.get_by_role("button", name="All safe")).to_be_visible()


async def test_several_environments_beside_each_other(tmp_path, browser):
    config = tmp_path / "growd.toml"
    config.write_text(SHELVES)
    async with (
        started(tmp_path / "data", "--config", str(config), "--speed", "10") as program,
        opened(browser, program.address, viewport=DESK) as tab,
    ):
        page = tab.page
        for name in ("environment 1", "shelf 2"):
            await expect(page.get_by_role("article", name=name)).to_be_visible()
        await expect(page.get_by_role("article", name="shelf 2")).to_contain_text("lx")
        chamber = page.get_by_role("combobox", name="Chamber")
        await chamber.select_option("shelf_2")
        await expect(page).to_have_title("Now · Shelf 2 · growd")
        await expect(page.get_by_role("article", name="Light", exact=True)).to_be_visible()
        await expect(page.get_by_role("article", name="CO₂")).to_have_count(0)
        await page.get_by_role("link", name="Devices").click()
        await expect(page.get_by_role("heading", name="lux")).to_be_visible()
        await chamber.select_option("environment_1")  # the view stays
        await expect(page.get_by_role("heading", name="air", exact=True)).to_be_visible()
