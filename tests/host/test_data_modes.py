"""Who may read the data of a daemon."""

import asyncio
import contextlib
import stat

from support.program import started

ANY_UMASK = ("sh", "-c", 'umask 0; exec "$@"', "sh")


async def test_only_its_user_may_read_the_data_whatever_the_umask_is(tmp_path):
    data = tmp_path / "folder/data"
    async with started(data, "--profile", "sim", inside=ANY_UMASK) as program:
        await program.until_there("environmental_data_point")
        modes = await asyncio.to_thread(modes_in, data)
    assert any("couchdb/" in name for name in modes)  # the embedded database
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def modes_in(data):
    found = {}
    for path in (data, *data.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the running database removes files meanwhile
            if not path.is_symlink():
                found[str(path)] = stat.S_IMODE(path.lstat().st_mode)
    return found
