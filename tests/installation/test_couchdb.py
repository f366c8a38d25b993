import asyncio
import re
import stat
import tomllib
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from growd.config.profiles import PROFILES, profile_text
from growd.store.bootstrap import bootstrap
from growd.store.couch import Couch
from growd_cli.main import main
from growd_machine.installation.couchdb import couchdb_is_installed, couchdb_removal_steps, couchdb_steps
from growd_machine.installation.couchdb_checks import couchdb_findings, wait_for_couchdb
from growd_machine.installation.machine import InstallError, Machine
from growd_machine.installation.sources import source_at
from growd_machine.installation.steps import digest_of
from support.couchdb_process import couchdb_home, couchdb_process
from support.http_server import serving_http
from support.ports import held_port

CHECKOUT = Path(__file__).parents[2]
SETTINGS = (CHECKOUT / "couchdb/local.d/growd.ini").read_text()
CONTAINER = "var/lib/growd-couchdb/local.d"
PACKAGE = "opt/couchdb/etc/local.d"


@pytest.fixture(params=["container", "package"])
def machine(tmp_path, request):
    """A machine with podman or with Apache's package, and a fresh configuration of growd."""
    root = tmp_path / "root"
    program = root / ("usr/bin/podman" if request.param == "container" else "opt/couchdb/bin/couchdb")
    program.parent.mkdir(parents=True)
    program.touch()
    (root / PACKAGE).mkdir(parents=True)
    (root / "etc/growd").mkdir(parents=True)
    (root / "etc/growd/growd.toml").write_text(profile_text("food-computer"))
    return Machine(root)


def steps_of(machine):
    shipped = {digest_of(profile_text(name)) for name in PROFILES}
    return couchdb_steps(machine, source_at(CHECKOUT), shipped, Path("growd"))


def install(machine):
    """The steps that were not done already, in words."""
    done = []
    for step in steps_of(machine):
        if not step.is_done():
            step.do()
            done.append(step.words)
    return done


def settings_of(machine):
    return machine.root / (CONTAINER if (machine.root / "usr/bin/podman").exists() else PACKAGE)


def login_of(file):
    user, password = file.read_text().splitlines()
    return user, password


def test_an_installation_continues_after_each_step_and_a_second_one_changes_nothing(machine):
    for count in range(len(steps_of(machine))):
        for step in steps_of(machine)[:count]:
            if not step.is_done():
                step.do()
    install(machine)
    assert couchdb_is_installed(machine)
    before = {path: path.read_text() for path in machine.root.rglob("*") if path.is_file()}
    assert install(machine) == []
    assert {path: path.read_text() for path in machine.root.rglob("*") if path.is_file()} == before


def test_passwords_are_random_and_in_private_files_only(machine):
    install(machine)
    logins = [machine.root / "var/lib/growd-couchdb/admin", machine.root / "etc/growd/credentials/couchdb"]
    passwords = {login_of(login)[1] for login in logins}
    assert len(passwords) == 2
    assert all(len(password) >= 40 for password in passwords)
    holders = {
        path
        for path in machine.root.rglob("*")
        if path.is_file() and any(password in path.read_text() for password in passwords)
    }
    assert holders == set(logins)
    private = [*logins, settings_of(machine) / "20-growd-accounts.ini"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_a_changed_password_is_written_to_the_accounts_and_other_settings_stay(machine):
    install(machine)
    accounts = settings_of(machine) / "20-growd-accounts.ini"
    with accounts.open("a") as file:  # as CouchDB does at _node/_local/_config
        file.write("\n[replicator]\nverify_ssl_certificates = true\n")
    kept = re.findall(r"(?:uuid|secret) = \w+", accounts.read_text())
    (machine.root / "etc/growd/credentials/couchdb").write_text("growd\nanother\n")
    assert install(machine) == [f"write the accounts of CouchDB to {accounts}"]
    assert "[replicator]\nverify_ssl_certificates = true" in accounts.read_text()
    assert re.findall(r"(?:uuid|secret) = \w+", accounts.read_text()) == kept
    assert install(machine) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_a_shipped_configuration_is_changed_to_use_couchdb(machine, profile):
    file = machine.root / "etc/growd/growd.toml"
    file.write_text(profile_text(profile))
    install(machine)
    assert tomllib.loads(file.read_text()) == tomllib.loads(profile_text(profile)) | {
        "couchdb": {"url": "http://127.0.0.1:5985", "credentials_file": "couchdb"}
    }


def test_an_edited_configuration_stays_and_the_lines_are_named_unless_it_has_a_couchdb(machine):
    file = machine.root / "etc/growd/growd.toml"
    edited = profile_text("minimal") + "\n# mine\n"
    file.write_text(edited)
    words = "\n".join(install(machine))
    assert file.read_text() == edited
    assert 'credentials_file = "couchdb"' in words
    assert "which was edited" in words
    edited = '[couchdb]\nurl = "http://elsewhere:5984"\n'
    file.write_text(edited)
    assert not [words for words in install(machine) if "growd.toml" in words]
    assert file.read_text() == edited


def test_the_way_stays_when_the_other_is_installed_later(machine):
    for program in (machine.root / "usr/bin/podman", machine.root / "opt/couchdb/bin/couchdb"):
        install(machine)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    assert install(machine) == []


def test_without_podman_and_package_the_system_or_the_command_is_named(tmp_path, monkeypatch, said):
    with pytest.raises(InstallError, match=f"the system in {tmp_path} does not have it"):
        steps_of(Machine(tmp_path))
    monkeypatch.setattr(Machine, "is_live", True)
    with said.raises(InstallError):
        steps_of(Machine(tmp_path))


def test_damaged_accounts_and_logins_are_one_sentence(machine):
    install(machine)
    accounts, login = (
        settings_of(machine) / "20-growd-accounts.ini",
        machine.root / "etc/growd/credentials/couchdb",
    )
    whole = accounts.read_text()
    accounts.write_text("no section\n")
    with pytest.raises(InstallError, match=f"{accounts} is damaged: "):
        install(machine)
    accounts.write_text(whole)
    login.unlink()
    login.mkdir()
    with pytest.raises(IsADirectoryError):  # not that it has no two lines
        install(machine)


def test_uninstall_keeps_the_data_unless_purged(machine):
    install(machine)
    home = machine.root / "var/lib/growd-couchdb"
    for step in couchdb_removal_steps(machine, purge=False):
        step.do()
    assert not couchdb_is_installed(machine)
    assert (home / "admin").exists()
    for step in couchdb_removal_steps(machine, purge=True):
        step.do()
    assert not home.exists()


def test_the_command_installs_couchdb_again_with_each_upgrade(machine):
    """Without --couchdb too, once it is installed."""
    runner = CliRunner()
    dry = ["install", str(CHECKOUT), "--root", str(machine.root), "--dry-run"]
    assert "CouchDB" not in runner.invoke(main, dry).output
    assert "write the settings of CouchDB" in runner.invoke(main, [*dry, "--couchdb"]).output
    install(machine)
    (settings_of(machine) / "10-growd.ini").unlink()
    assert "would write the settings of CouchDB" in runner.invoke(main, dry).output


def test_the_container_is_private_and_small():
    unit = (CHECKOUT / "systemd/growd-couchdb.service").read_text()
    command = unit.partition("ExecStart=")[2].partition("${IMAGE}")[0].split()
    for option in ("--read-only", "--rm", "--replace"):
        assert option in command
    assert "COUCHDB_PASSWORD" not in unit
    assert not re.search(r"password", unit, re.IGNORECASE)
    assert re.search(r"^Environment=IMAGE=docker\.io/library/couchdb:3\.\d+\.\d+$", unit, re.MULTILINE)
    assert "MemoryMax=" in unit


def test_each_setting_exists_in_this_couchdb():
    known = {}
    for line in (couchdb_home() / "etc/default.ini").read_text().splitlines():
        if found := re.fullmatch(r";?\[([\w.]+)\]", line):
            section = known.setdefault(found[1], set())
        elif found := re.match(r";?\s*(\w+)\s*=", line):
            section.add(found[1])
    section_name = ""
    for line in SETTINGS.splitlines():
        if found := re.fullmatch(r"\[([\w.]+)\]", line):
            section_name = found[1]
        elif found := re.match(r"(\w+)\s*=", line):
            assert found[1] in known[section_name], f"[{section_name}] {found[1]}"


@pytest.fixture
def running(machine, tmp_path):
    """A CouchDB with the installed settings and accounts: its address, the machine, and its settings."""
    couchdb_home()
    install(machine)
    folder = tmp_path / "couchdb"
    folder.mkdir()
    inis = sorted(settings_of(machine).glob("*.ini"))
    with held_port() as port, couchdb_process(folder, inis, port) as url:
        yield url, machine, SETTINGS.replace("port = 5985", f"port = {port}")


def test_couchdb_starts_with_the_settings_and_growd_can_set_it_up(running):
    url, machine, settings = running
    login = login_of(machine.root / "etc/growd/credentials/couchdb")

    async def set_up():
        await wait_for_couchdb(url, login)
        async with aiohttp.ClientSession() as session:
            couch = Couch(session, url, credentials=login)
            await bootstrap(couch, CHECKOUT / "couchdb")
            admin = Couch(session, url, credentials=login_of(machine.root / "var/lib/growd-couchdb/admin"))
            return await admin.settings(), await couch.info("environmental_data_point") or {}

    present, info = asyncio.run(set_up())
    assert info["cluster"]["q"] == 1
    assert set(present["admins"]) == {"admin", "growd"}
    assert asyncio.run(couchdb_findings(url, login, settings)) == ([], [])


def test_wrong_logins_and_settings_of_a_couchdb_are_found(running):
    url, machine, settings = running
    user, password = login_of(machine.root / "etc/growd/credentials/couchdb")
    asyncio.run(wait_for_couchdb(url, (user, password)))

    def findings(login, wanted=settings):
        return "; ".join(asyncio.run(couchdb_findings(url, login, wanted)).faults)

    assert f"refuses the login of '{user}'" in findings((user, "wrong"))
    assert "asks for a login" in findings(None)
    different = findings((user, password), settings.replace("q = 1", "q = 4"))
    assert "[cluster] q is 1 instead of 4" in different
    assert "growd install --couchdb" in different


def test_an_absent_couchdb_is_named_with_a_remedy():
    with held_port() as port:
        found = asyncio.run(couchdb_findings(f"http://127.0.0.1:{port}", ("growd", "x"), SETTINGS)).faults
    assert len(found) == 1
    assert f"no CouchDB answers at http://127.0.0.1:{port}" in found[0]
    assert "Connection refused" in found[0]
    assert "systemctl status growd-couchdb" in found[0]


async def test_an_older_server_is_named_with_its_version():
    async def welcome(_):
        return aiohttp.web.json_response(
            {"couchdb": "Welcome", "version": "3.3.3", "vendor": {"name": "The Apache Software Foundation"}}
        )

    async with serving_http(welcome) as url:
        found = await couchdb_findings(url, ("growd", "x"), SETTINGS)
    assert found.faults == [
        f"{url} is The Apache Software Foundation, version 3.3.3; growd needs Apache CouchDB 3.5 or newer"
    ]


@pytest.mark.parametrize("is_installed", [True, False])
async def test_only_who_has_the_installed_couchdb_is_sent_to_the_installation(*, is_installed):
    is_accepted = True

    async def answer(request):
        if not is_accepted:
            return aiohttp.web.json_response({"error": "unauthorized", "reason": "wrong"}, status=401)
        if request.path == "/":
            about = {"version": "3.5.0", "vendor": {"name": "The Apache Software Foundation"}}
            return aiohttp.web.json_response({"couchdb": "Welcome", **about})
        if request.path.startswith("/_node"):
            return aiohttp.web.json_response({"chttpd": {"port": "15984"}, "smoosh": {}})
        return aiohttp.web.json_response({"error": "not_found", "reason": "missing"}, status=404)

    async with serving_http(answer) as url:
        login = ("growd", "x")
        settings = (await couchdb_findings(url, login, SETTINGS, is_installed=is_installed)).faults[0]
        is_accepted = False
        refusal = (await couchdb_findings(url, login, SETTINGS, is_installed=is_installed)).faults[0]
    absent = (await couchdb_findings(url, login, SETTINGS, is_installed=is_installed)).faults[0]
    assert ("[chttpd] port is 15984" in settings) is is_installed
    for sentence in (settings, refusal):
        assert ("growd install --couchdb" in sentence) is is_installed
    assert ("growd-couchdb" in absent) is is_installed


def test_check_asks_the_configured_couchdb(tmp_path):
    file = tmp_path / "growd.toml"
    (tmp_path / "login").write_text("growd\nsecret\n")
    with held_port() as port:
        file.write_text(
            f'[couchdb]\nurl = "http://127.0.0.1:{port}"\ncredentials_file = "{tmp_path}/login"\n'
            "[simulator]\nenabled = true\n"
        )
        shown = CliRunner().invoke(main, ["check", "--config", str(file)])
    assert f"warning: no CouchDB answers at http://127.0.0.1:{port}" in shown.output
    assert shown.exit_code == 0  # the file is valid; CouchDB may run elsewhere
