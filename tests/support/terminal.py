"""Runs commands of the terminal, in this process or in a new one."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass

from click.testing import CliRunner

from growd_cli.main import main
from support.program import GROWD, PATIENCE_S

_PLAIN = ("GROWD_USER", "GROWD_PASSWORD", "NO_COLOR")


@dataclass(frozen=True)
class Printed:
    """The exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@asynccontextmanager
async def begun(*arguments, **environment):
    """A running command with pipes for both outputs; killed at the end if it still runs."""
    usual = {name: value for name, value in os.environ.items() if name not in _PLAIN}
    process = await asyncio.create_subprocess_exec(
        str(GROWD),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**usual, **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()


async def typed(*arguments, answers=None, **environment):
    """Run a command in a thread of this process, which has imported all modules already.

    `answers` are the lines that a person types when it asks.
    """
    runner = CliRunner(env={**dict.fromkeys(_PLAIN), **environment})
    done = await asyncio.to_thread(runner.invoke, main, arguments, answers, prog_name="growd")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Printed(done.exit_code, done.stdout, done.stderr)


async def launched(*arguments, **environment):
    """Run a command in a new process."""
    async with begun(*arguments, **environment) as process:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode is not None
        return Printed(process.returncode, out.decode(), err.decode())


async def line_of(stream):
    """The next line of output."""
    return (await asyncio.wait_for(stream.readline(), PATIENCE_S)).decode()
