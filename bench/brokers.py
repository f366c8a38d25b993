"""What else could carry a chamber's messages, for `bus` to stand beside: rospy and mosquitto.

Their daemons run on free ports, write into a temporary folder only, and end with the measurement.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import HERE, has, held_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROS_PYTHON = "/usr/bin/python3"  # Debian's packages of ROS are for Debian's Python
PATIENCE_S = 60.0
MOSQUITTO_RATE = 50_000  # messages for each second that is to be measured; about what one core carries


def has_rospy() -> bool:
    """Whether Debian's rospy and ROS master are installed; says so on standard error if they are not."""
    if not has("rosmaster") or not Path(ROS_PYTHON).exists():
        return False
    tried = subprocess.run([ROS_PYTHON, "-c", "import rospy, std_msgs.msg"], check=False, capture_output=True)
    if tried.returncode:
        print("python3-rospy is not installed: what needs it is left out", file=sys.stderr)
    return tried.returncode == 0


def has_mosquitto() -> bool:
    """Whether the broker and its two clients are installed; says so on standard error if they are not."""
    return all(has(program) for program in ("mosquitto", "mosquitto_pub", "mosquitto_sub"))


def rospy_rate(seconds: float, queue: int) -> float:
    """Messages a second that get from one process to another; `queue` is the publisher's, 0 for none."""
    side = [ROS_PYTHON, str(HERE / "ros_side.py")]
    with ExitStack() as stack:
        folder, port = stack.enter_context(temporary_folder()), stack.enter_context(held_port())
        environment = os.environ | {
            "ROS_MASTER_URI": f"http://127.0.0.1:{port}",
            "ROS_IP": "127.0.0.1",
            "ROS_HOME": folder,
            "ROS_LOG_DIR": folder,
            "HOME": folder,
        }
        stack.enter_context(running(["rosmaster", "--core", "-p", str(port)], environment))
        wait_for(port)
        reader = stack.enter_context(running([*side, "read"], environment))
        first_line(reader)
        stack.enter_context(running([*side, "publish", str(seconds), str(queue)], environment))
        return float(first_line(reader))


def mosquitto_rate(seconds: float) -> float:
    """Messages a second (QoS 0) from one client through the broker to another."""
    count = max(1_000, int(MOSQUITTO_RATE * seconds))
    with ExitStack() as stack:
        folder, port = Path(stack.enter_context(temporary_folder())), stack.enter_context(held_port())
        (folder / "messages").write_text("410.25\n" * count)
        (folder / "mosquitto.conf").write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nlog_dest none\n"
        )
        stack.enter_context(running(["mosquitto", "-c", str(folder / "mosquitto.conf")]))
        wait_for(port)
        topic = ["-h", "127.0.0.1", "-p", str(port), "-t", "measured"]
        # A retained message is what a subscriber gets at once: when it is there, the subscription is.
        subprocess.run(["mosquitto_pub", *topic, "-r", "-m", "ready"], check=True, timeout=PATIENCE_S)
        reader = stack.enter_context(running(["mosquitto_sub", *topic, "-C", str(count + 1)]))
        first_line(reader)
        began = time.perf_counter()
        with (folder / "messages").open() as messages:
            subprocess.run(["mosquitto_pub", *topic, "-l"], stdin=messages, check=True, timeout=PATIENCE_S)
        reader.communicate(timeout=PATIENCE_S)
        return count / (time.perf_counter() - began)


def first_line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints; an error if it ends, or is silent for long."""
    assert process.stdout is not None  # noqa: S101  `running` asked for it
    said, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    line = process.stdout.readline() if said else ""
    if not line:
        raise RuntimeError(f"{process.args!r} said nothing")
    return line


@contextmanager
def running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed in the end if it still runs; what it prints can be read."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="growd-bench-")


def wait_for(port: int) -> None:
    """Until something listens on this port of the loopback."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
