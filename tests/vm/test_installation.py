"""Installed from a bundle on Debian with nothing but Python: readings, outputs, checks and removal."""

import re

import pytest

from support.chamber_machine import FAN, LAMP, OFF, VALVE, ChamberMachine

FINEST_LUX_PER_COUNT = 69 / 254 / 1.2 / 2  # BH1750 technical note: measurement time 254, mode 2


def test_an_installation_ends_with_readings_of_the_sensors(chamber, installed, scenario):
    with scenario("readings after the installation"):
        output = (installed / "output").read_text()
        assert "growd runs at http://127.0.0.1:5984" in output
        assert chamber.measured("air_carbon_dioxide") == 800.0
        assert chamber.measured("air_temperature") == 23.5
        assert chamber.measured("air_humidity") == pytest.approx(55.25, abs=0.00001)
        chamber.set("co2", 650)
        chamber.set("lux", 1000)
        lux = int(1000 / FINEST_LUX_PER_COUNT) * FINEST_LUX_PER_COUNT
        chamber.until(lambda: chamber.measured("air_carbon_dioxide") == pytest.approx(650.0, abs=0.5))
        chamber.until(lambda: chamber.measured("light_illuminance") == pytest.approx(lux, abs=0.5))


def test_an_scd30_on_a_fast_bus_swaps_bytes_and_the_check_names_the_bus_speed(chamber, scenario):
    with scenario("a bus that is too fast"):
        chamber.set("bus_hz", 100_000)
        chamber.until(lambda: chamber.run("journalctl -u growd -o cat | grep 'wrong checksum'"))
        chamber.run("systemctl stop growd")
        check = "growd check --config /etc/growd/growd.toml --hardware"
        assert "an SCD30 needs at most 50 kHz" in chamber.machine.result(check, timeout_s=300).output
        chamber.set("bus_hz", 50_000)
        chamber.run("systemctl start --no-block growd")
        chamber.wait_until_it_runs()


def test_all_outputs_answer_after_each_of_ten_starts(chamber, scenario):
    with scenario("ten starts with all outputs"):
        for _ in range(10):
            chamber.run("systemctl stop growd; systemctl start --no-block growd")
            chamber.until(lambda: chamber.service("ActiveState") == "active")
            before = {pin: chamber.changes(pin) for pin in (*LAMP, VALVE, FAN)}
            chamber.publish("desired/light_illuminance", 20_000)
            chamber.publish("desired/air_carbon_dioxide_valve_on", 1)
            chamber.publish("desired/air_flush_on", 1)
            chamber.until(lambda: all(chamber.changes(pin) > before[pin] for pin in before))  # noqa: B023
            for topic in ("light_illuminance", "air_carbon_dioxide_valve_on", "air_flush_on"):
                chamber.publish(f"desired/{topic}", None)
            chamber.until(lambda: chamber.level(VALVE) == chamber.level(FAN) == OFF)


def test_the_checks_of_a_pi_run_on_a_machine_that_is_not_one(chamber, scenario):
    with scenario("growd check --pi, growd setup-pi"):
        check = chamber.machine.result("growd check --pi", timeout_s=300)
        scenario.line(
            "not ok: " + "; ".join(re.findall("^(?:failure|warning) .*", check.output, re.MULTILINE))
        )
        assert check.errors == ""
        for name in ("system", "python", "service", "card"):
            assert re.search(f"^ok +{name}: ", check.output, re.MULTILINE)
        shown = chamber.machine.result("growd setup-pi", timeout_s=300)
        assert shown.status == 1
        assert shown.errors.startswith("growd: this machine is not a Raspberry Pi")


def test_an_uninstallation_leaves_configuration_and_data(chamber, scenario):
    with scenario("uninstallation"):
        chamber.run("growd uninstall", timeout_s=300)
        assert left(chamber) == {"/etc/growd", "/var/lib/growd"}
        assert chamber.machine.result("systemctl cat growd").status != 0
        assert chamber.level(VALVE) == OFF


def test_a_purge_leaves_nothing(chamber, scenario):
    with scenario("uninstallation with --purge"):
        chamber.run("growd uninstall --purge", timeout_s=300)
        assert left(chamber) == set()


def test_the_debian_package_runs_a_chamber_and_its_purge_leaves_nothing(fresh, package, scenario):
    with scenario("Debian package: installed, running, purged"):
        chamber = ChamberMachine(fresh)
        chamber.run(f"dpkg --install {package}", timeout_s=300)
        chamber.wait_until_it_runs()
        assert chamber.measured("air_carbon_dioxide") == 800.0
        chamber.open_valve()
        chamber.run("dpkg --purge growd", timeout_s=300)
        assert chamber.level(VALVE) == OFF
        assert left(chamber) == set()


def left(chamber):
    """Files and folders of growd, without those below others."""
    places = chamber.run(
        "find /etc /opt /usr /var -xdev -name '*growd*' -not -name 'growd-vm*' -not -name 'growd_pi*' -prune"
    )
    return set(places.split())
