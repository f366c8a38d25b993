"""Completion, as a shell requests it, and in a real bash."""

import asyncio
import os
import pty
import shutil
import socket
import sys

import click
import pytest
from click.testing import CliRunner

from growd_cli.main import COMMANDS, main
from growd_cli.run import SUBCOMMANDS, run
from support.daemon import CALIBRATE, CO2, LIGHT, START, STOP
from support.program import GROWD, PATIENCE_S
from support.terminal import launched, typed

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

# Sources the script, then has bash's own machinery complete the last word of a line, as Tab does.
ASKED = """
source "$1"
shift
complete -p growd | grep -q -- '-F _growd_completion' || exit 9
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_growd_completion growd
printf '%s\\n' "${COMPREPLY[@]}"
"""


# growd, which waits for the names as long as a busy machine may take.
PATIENT = f"""#!{sys.executable}
from growd_cli.__main__ import main
from growd_cli import names

names._COMPLETION_S = {PATIENCE_S}
main()
"""


async def completed(script, *words, program=None, terminal=asyncio.subprocess.DEVNULL):
    """The completions of bash for the last word; growd is beside the script or at `program`."""
    folder = script.parent if program is None else program.parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "--norc", "-c", ASKED, "bash", str(script), *words,
        stdin=terminal,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, err) == (0, b"")
    process._transport.close()
    return out.decode().split()


@pytest.fixture
async def script(tmp_path):
    file = tmp_path / "growd.bash"
    printed = await typed("completion", "bash")
    assert printed.status == 0
    file.write_text(printed.out)
    (tmp_path / "growd").write_text(PATIENT)
    (tmp_path / "growd").chmod(0o755)
    return file


@pytest.mark.long
@needs_bash
async def test_bash_completes_commands_and_the_names_of_the_daemon(daemon, script):
    assert await completed(script, "growd", "to") == ["topic"]
    assert await completed(script, "growd", "topic", "") == ["echo", "info", "list", "pub", "release"]
    url = ("--url", daemon.origin)
    assert await completed(script, "growd", "topic", "echo", *url, "environment_1/m") == [CO2]
    assert await completed(script, "growd", "topic", "pub", *url, "/environment_1/desired/l") == [f"/{LIGHT}"]
    assert await completed(script, "growd", "service", "call", *url, "") == [START, STOP, CALIBRATE]
    assert await completed(script, "growd", "service", "call", *url, START, "reci") == ["recipe_id="]
    assert await completed(script, "growd", "node", "info", *url, "rec") == ["recipe_runner"]
    assert await completed(script, "growd", "param", "get", *url, "sens") == ["sensors/scd30/interval"]


@needs_bash
async def test_names_with_shell_characters_are_not_completed(daemon, script):
    for name in ("mine/$(date)", "mine/`date`", "mine/a;b", "mine/*", "mine/a b", "mine/wärme"):
        printed = await typed("param", "set", name, "1", "--url", daemon.origin)
        assert printed.status == 0
    url = ("--url", daemon.origin)
    assert await completed(script, "growd", "param", "get", *url, "mine/") == ["mine/wärme"]
    (script.parent / "password").write_text("x")
    login = ("--user", "caf\udce9", "--password-file", str(script.parent / "password"))
    assert await completed(script, "growd", "param", "get", *url, *login, "mine/") == []


@pytest.mark.long
@needs_bash
async def test_without_a_daemon_completion_is_empty_and_silent(script):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        silent.listen()  # accepts connections, and never answers
        assert await completed(script, "growd", "topic", "echo", "--url", address, "e", program=GROWD) == []
    for where in (("--url", address), ("--url", "nonsense"), ("--set", "http.prot=1")):
        assert await completed(script, "growd", "topic", "echo", *where, "e") == []


@needs_bash
async def test_completion_never_prompts_for_a_password(daemon, script):
    ours, theirs = pty.openpty()
    words = ("growd", "topic", "echo", "--user", "bob", "--url", daemon.origin, "e")
    try:
        assert await completed(script, *words, terminal=theirs) == []
    finally:
        os.close(ours)
        os.close(theirs)


async def test_each_shell_has_a_script():
    for shell in ("bash", "zsh", "fish"):
        printed = await typed("completion", shell)
        assert (printed.status, printed.err) == (0, "")
        assert "_GROWD_COMPLETE" in printed.out


@pytest.mark.parametrize(("group", "commands"), [(main, COMMANDS), (run, SUBCOMMANDS)])
def test_each_command_of_the_table_exists_and_is_in_the_help(group, commands):
    shown = CliRunner().invoke(group, ["--help"]).output
    for name, listed in commands.items():
        command = group.get_command(click.Context(group), name)
        assert command.name == name
        assert listed.summary.endswith(".")
        assert f"\n  {name} " in shown
        assert group is main or listed.summary == command.get_short_help_str(100)


async def test_misplaced_options_and_misspelt_commands_are_refused(said):
    for words in (("run", "--port", "0", "list"), ("topc", "list"), ("stauts",), ("run", "lits")):
        refused = await typed(*words)
        assert (refused.status, refused.out) == (2, "")
        said(refused.err.splitlines()[-1])


async def test_short_commands_import_no_server_and_no_driver(daemon):
    printed = await launched("topic", "list", "--url", daemon.origin, PYTHONPROFILEIMPORTTIME="1")
    read = {line.rpartition("|")[2].strip() for line in printed.err.splitlines()}
    assert "growd_cli.client" in read
    assert not read & {
        "aiohttp",
        "asyncio",
        "growd.wiring.app",
        "growd_hwsim",
        "growd_drivers.hardware",
        "smbus2",
        "growd.http",
    }
