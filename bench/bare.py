"""The reference of `api`: a bare aiohttp application that answers a constant, or parses what it is sent.

It runs on the event loop that growd runs on. Prints its port once it listens; ends with its standard input.
"""

from __future__ import annotations

from aiohttp import web
from serving import ended

from growd.runtime.event_loop import run_on_loop


async def constant(_: web.Request) -> web.Response:
    return web.json_response({"result": 1})


async def parse(request: web.Request) -> web.Response:
    return web.json_response({"result": await request.json()})


async def serve() -> None:
    application = web.Application()
    application.router.add_get("/", constant)
    application.router.add_post("/", parse)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await ended()
    await runner.cleanup()


if __name__ == "__main__":
    run_on_loop(serve())
