"""What an installation reports of the service that it started."""

import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from growd.runtime.clock import RealClock
from growd_machine.installation.growd_service import output_of
from growd_machine.installation.machine import InstallError, Machine, ProgramError
from growd_machine.installation.running import PATIENCE_S, address_in, start_service, wait_for_answer


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", "http://127.0.0.1:5984"),
        ('[http]\nhost = "0.0.0.0"\nport = 80\n', "http://127.0.0.1:80"),
        ('[http]\nhost = "::"\n', "http://[::1]:5984"),
        ('[http]\nhost = "growd.local"\n[tls]\ncertificate = "a"\n', "https://growd.local:5984"),
    ],
)
def test_the_address_is_that_of_the_configuration(text, address):
    assert address_in(text) == address


def test_the_lines_of_a_program_arrive_while_it_runs(tmp_path):
    """It ends once its first line has arrived."""
    seen = tmp_path / "seen"
    program = (
        f"import os\nprint('first', flush=True)\nwhile not os.path.exists({str(seen)!r}): pass\nprint('2')"
    )
    lines = []

    def say(line):
        lines.append(line)
        seen.touch()

    assert output_of([sys.executable, "-c", program], 60.0, say) == "first\n2\n"
    assert lines == ["first", "2"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('half', flush=True); raise SystemExit('one\\ntwo')", " failed: two"),
        ("print('said')\nraise SystemExit(3)", " failed: said"),
        ("raise SystemExit(3)", " failed: status 3"),
        ("import time; time.sleep(60)", " did not end within 0.3 s"),
    ],
)
def test_a_program_that_fails_is_named_with_its_last_words(program, reason):
    with pytest.raises(InstallError) as raised:
        output_of([sys.executable, "-c", program], 0.3 if "sleep" in program else 60.0)
    assert str(raised.value) == f"{sys.executable} -c {program}{reason}"


class Refusing(BaseHTTPRequestHandler):
    """Answers as growd does to clients without a login."""

    def do_GET(self):
        self.send_error(401)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def machine(root, port, state=""):
    (root / "etc/growd").mkdir(parents=True)
    (root / "etc/growd/growd.toml").write_text(f"[http]\nport = {port}\n")
    return Machine(root, ask=lambda _: state)


def test_a_service_that_wants_a_login_answers(tmp_path, service):
    port = service.server_port
    lines = wait_for_answer(machine(tmp_path, port, "2 of 2 devices well; 0 points waiting"))
    assert lines == [f"growd runs at http://127.0.0.1:{port}", "2 of 2 devices well; 0 points waiting"]


def test_a_couchdb_that_refuses_the_login_is_reported(tmp_path, service):
    port = service.server_port
    live = machine(tmp_path, port)
    with (tmp_path / "etc/growd/growd.toml").open("a") as file:
        file.write(f'[couchdb]\nurl = "http://127.0.0.1:{port}"\ncredentials_file = "couchdb"\n')
    assert "couchdb'" in wait_for_answer(live)[-1]  # the file is missing
    (tmp_path / "etc/growd/credentials").mkdir()
    (tmp_path / "etc/growd/credentials/couchdb").write_text("growd\nwrong\n")
    assert wait_for_answer(live)[-1] == (
        f"The CouchDB http://127.0.0.1:{port}/_session refuses growd with status 401; "
        "check [couchdb] credentials_file"
    )


def test_a_couchdb_that_does_not_answer_is_reported(tmp_path, service):
    live = machine(tmp_path, service.server_port)
    with socket.socket() as bound:  # nothing listens
        bound.bind(("127.0.0.1", 0))
        with (tmp_path / "etc/growd/growd.toml").open("a") as file:
            file.write(f'[couchdb]\nurl = "http://127.0.0.1:{bound.getsockname()[1]}"\n')
        assert "can't be used: [Errno 111] Connection refused" in wait_for_answer(live)[-1]


class Skipping(RealClock):
    """A clock that advances by waiting only."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep_blocking(self, seconds):
        self.now += 20 * seconds


@pytest.mark.long
def test_a_service_that_does_not_answer_is_an_error(tmp_path):
    clock = Skipping()
    began = clock.monotonic()
    with socket.socket() as bound:  # nothing listens
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(InstallError, match=f"does not answer at http://127.0.0.1:{port}"):
            wait_for_answer(machine(tmp_path, port), clock)
    assert clock.monotonic() - began >= PATIENCE_S


def test_a_service_that_does_not_start_is_an_error_with_its_cause(tmp_path, said):
    commands = []

    def fail(command):
        commands.append(command[1])
        raise ProgramError(command, "Job failed. See journalctl")

    def ask(command):
        assert "_SYSTEMD_UNIT=growd.service" in command or "--sync" in command  # no lines of systemd itself
        return "an earlier line\ngrowd: port 5984 is in use\ngrowd: not safe: a pin"

    with said.raises(InstallError):
        start_service(Machine(tmp_path, fail, ask), restart=True)
    assert commands == ["reset-failed", "restart"]
