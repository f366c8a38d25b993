"""Many tabs of one browser, which shares six connections among them (HTTP/1.1)."""

from contextlib import AsyncExitStack

from support.browser import opened, page_at
from support.page import address, connected, in_browser

pytestmark = in_browser

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_hidden_tab_gives_its_connection_back_and_takes_it_again(shared, browser, client):
    async def streams():
        return (await client.status())["http"]["streams"]

    async with page_at(browser, address(shared)) as page:
        await connected(page)
        await client.until(streams, lambda number: number == 1)  # also those of tabs before it have ended
        await page.evaluate(HIDE, arg=True)
        await client.until(streams, lambda number: number == 0)
        await page.evaluate(HIDE, arg=False)
        await client.until(streams, lambda number: number == 1)
        await connected(page)


async def test_eight_tabs_of_which_one_is_seen_all_load(shared, browser):
    async with opened(browser, address(shared)) as first, AsyncExitStack() as stack:
        pages = [first.page]
        for _ in range(7):
            await connected(pages[-1])
            await pages[-1].evaluate(HIDE, arg=True)
            pages.append(await first.page.context.new_page())
            stack.push_async_callback(pages[-1].close)
            await pages[-1].goto(address(shared))
        await connected(pages[-1])
