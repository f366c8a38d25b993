"""A virtual machine with growd as its service: asks the daemon, the journal, the pins and the sensors."""

import json
import re
import shlex
import time

from virtual_machine import VirtualMachineError

ENVIRONMENT = "environment_1"
VALVE, FAN = 23, 24  # pins of the profile food-computer; its relays switch on at a low level
OFF, ON = 1, 0
LAMP = (12, 13, 18)
PATIENCE_S = 120.0  # times the slowness of the machine

# Python and the growd command take seconds to start in an emulated machine, so bash makes the requests.
_REQUEST = 'exec 3<>/dev/tcp/127.0.0.1/5984 && printf %s "$1" >&3 && timeout 60 cat <&3'


class ChamberMachine:
    """The chamber of the profile food-computer in `machine`."""

    def __init__(self, machine):
        self.machine = machine
        self.run = machine.run

    def get(self, path):
        """The JSON at a path of port 5984."""
        return self._ask(path, "")

    def post(self, path, body):
        """The answer to a POST of JSON; `VirtualMachineError` if it was refused."""
        return self._ask(path, json.dumps(body))

    def accepts(self, topic, value):
        """Publish, and return whether growd acknowledged it."""
        path = f"/_svc/api/0.0.1/topic/{ENVIRONMENT}/{topic}"
        try:
            self.post(path, [value])
        except VirtualMachineError:
            return False
        return True

    def publish(self, topic, value):
        self.post(f"/_svc/api/0.0.1/topic/{ENVIRONMENT}/{topic}", [value])

    def measured(self, variable):
        """The latest value; an error while there is none."""
        answer = self.get(f"/_svc/api/0.0.1/topic_data/{ENVIRONMENT}/measured/{variable}")
        assert answer["quality"] == "ok"
        return float(answer["result"])

    def notes(self):
        """The notes in the database."""
        query = {"selector": {"variable": "note"}, "fields": ["value"], "limit": 1_000}
        found = self.post("/environmental_event/_find", query)
        return {str(point["value"]) for point in found["docs"]}

    def level(self, pin):
        """The level of a pin, read from the kernel module."""
        return int(self.run(f"awk '$1 == {pin} {{ print $3 }}' /sys/kernel/debug/growd_pi/lines"))

    def changes(self, pin):
        """How often the level of a pin has changed."""
        return int(self.run(f"awk '$1 == {pin} {{ print $4 }}' /sys/kernel/debug/growd_pi/lines"))

    def seconds_to(self, pin, level, command):
        """Run a command; for how long after its begin the pin had another level, by the kernel's record."""
        clock = "cut -d' ' -f1 /proc/uptime"  # without suspends the same as the clock of the record
        began = float(self.run(f"{clock}; {command}").partition("\n")[0])
        awk = f"awk '$2 == {pin} && $3 == {level} && $1 > {began * 1e9:.0f} {{ print $1; exit }}'"
        changed = ""

        def has_changed():
            nonlocal changed
            changed = self.run(f"{awk} /sys/kernel/debug/growd_pi/changes")
            return bool(changed)

        self.until(has_changed)
        return int(changed) / 1e9 - began

    def set(self, parameter, value):
        """Set a parameter of the kernel module, such as co2."""
        self.run(f"echo {value} >/sys/module/growd_pi/parameters/{parameter}")

    def service(self, name):
        """A property of the unit growd.service, such as ActiveState."""
        return self.run(f"systemctl show growd --property={name} --value")

    def wait_until_it_runs(self):
        """Wait until the service is active and has readings of both sensors."""
        self.until(lambda: self.service("ActiveState") == "active")
        self.until(lambda: self.measured("air_carbon_dioxide") and self.measured("light_illuminance"))

    def open_valve(self):
        """Open the CO2 valve by hand."""
        self.publish("desired/air_carbon_dioxide_valve_on", 1)
        self.until(lambda: self.level(VALVE) == ON)

    def until(self, condition, patience_s=PATIENCE_S):
        """Wait until a condition holds; the seconds it took. An error of a request counts as no."""
        began = time.monotonic()
        while True:
            failure = None
            try:
                if condition():
                    return time.monotonic() - began
            except Exception as error:  # noqa: BLE001  the last one is reported
                failure = error
            if time.monotonic() - began > patience_s * self.machine.slowness:
                raise TimeoutError(f"the condition did not hold in time: {self.state()}") from failure
            time.sleep(0.2)

    def state(self):
        """The state of the service and its last log records, for a failed test."""
        command = "systemctl status growd --no-pager --lines=0; journalctl -u growd --no-pager -n 30 -o cat"
        return self.machine.result(command).output

    def _ask(self, path, body):
        request = f"{'POST' if body else 'GET'} {path} HTTP/1.0\r\nHost: 127.0.0.1:5984\r\n"
        request += f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}"
        head, _, content = self.run(shlex.join(["bash", "-c", _REQUEST, "ask", request])).partition(
            "\r\n\r\n"
        )
        if not re.match("HTTP/1.[01] 2", head):
            raise VirtualMachineError(f"{path}: {head.partition(chr(13))[0] or 'no answer'}: {content}")
        return json.loads(content)
