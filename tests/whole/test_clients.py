"""The examples of docs/clients.md."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

from growd.variables import VARIABLES
from support.checkout import ROOT
from support.program import PATIENCE_S, home_on, started

if TYPE_CHECKING:
    from pathlib import Path

    from support.database import DatabaseServer

PAGE = (ROOT / "docs/clients.md").read_text()


async def test_the_client_in_python_asks_for_light_and_sees_it(
    tmp_path: Path, database_server: DatabaseServer
):
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--profile", "sim", *home.arguments) as program,
    ):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", example, program.address, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(client.communicate(), PATIENCE_S)
    assert client.returncode == 0
    assert re.fullmatch(r"\d+ lux", printed.decode().splitlines()[-1])


def test_the_table_of_variables_is_that_of_the_program():
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) to (\S+) \|$", PAGE, re.MULTILINE)
    assert rows == [(v.name, v.unit, f"{v.minimum:g}", f"{v.maximum:g}") for v in VARIABLES.values()]
