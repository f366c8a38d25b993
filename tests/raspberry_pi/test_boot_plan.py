import tomllib

import pytest

from growd.config import load
from growd.config.profiles import profile_path
from growd_cli.config_doubts import DOUBTS
from growd_machine.raspberry_pi.model import MODELS, model_named
from growd_machine.raspberry_pi.plan import CONSOLES, boot_plan

REAL = "[simulator]\nenabled = false\n"
WATCHDOG = "dtparam=watchdog=on"
FOOD_COMPUTER = profile_path("food-computer").read_text()
MINIMAL = profile_path("minimal").read_text()


def planned(tmp_path, text, model="4"):
    file = tmp_path / "growd.toml"
    file.write_text(text)
    return boot_plan(load(file, ()), MODELS[model])


def lines(plan):
    return [item.line for item in plan.lines]


@pytest.mark.parametrize("model", MODELS)
def test_a_food_computer_needs_a_slow_bus_and_safe_pins(tmp_path, model):
    plan = planned(tmp_path, FOOD_COMPUTER, model)
    assert lines(plan) == [
        "dtparam=i2c_arm=on",
        "dtparam=i2c_arm_baudrate=50000",
        "gpio=23,24=op,dh",
        "gpio=12,13,18=op,dl",
        WATCHDOG,
    ]
    assert [word.line for word in plan.words] == ["cgroup_enable=memory"]
    assert plan.consoles == ()
    assert plan.notes == ()


@pytest.mark.parametrize("model", ["3", "4", "zero2"])
def test_a_serial_sensor_needs_the_port_without_a_console_and_the_better_port_costs_bluetooth(
    tmp_path, model
):
    plan = planned(tmp_path, MINIMAL, model)
    assert lines(plan) == ["enable_uart=1", "gpio=24=op,dh", WATCHDOG]
    assert (plan.consoles, plan.notes) == (CONSOLES, ())
    plan = planned(tmp_path, MINIMAL.replace("/dev/serial0", "/dev/ttyAMA0"), model)
    assert lines(plan)[:2] == ["enable_uart=1", "dtoverlay=disable-bt"]
    assert "Bluetooth" in plan.notes[0]
    plan = planned(tmp_path, MINIMAL.replace("/dev/serial0", "/dev/ttyUSB0"), model)
    assert lines(plan) == ["gpio=24=op,dh", WATCHDOG]
    assert plan.consoles == ()


def test_a_pi_5_has_another_port_and_its_serial0_is_the_debug_connector(tmp_path):
    plan = planned(tmp_path, MINIMAL.replace("/dev/serial0", "/dev/ttyAMA0"), "5")
    assert lines(plan)[0] == "dtparam=uart0=on"
    assert (plan.consoles, plan.notes) == (("console=ttyAMA0", "console=ttyAMA0,*"), ())
    plan = planned(tmp_path, MINIMAL, "5")
    assert lines(plan)[0] == "dtparam=uart0=on"
    assert 'set port = "/dev/ttyAMA0"' in plan.notes[0]


@pytest.mark.parametrize(("pin", "overlay"), [("", "w1-gpio"), ("pin = 17", "w1-gpio,gpiopin=17")])
def test_a_thermometer_needs_the_1_wire_bus(tmp_path, pin, overlay):
    sensor = f'[[sensor]]\nname = "tank"\nkind = "ds18b20"\n{pin}\n'
    other = sensor.replace("tank", "air").replace(
        "ds18b20", 'ds18b20"\ndevice = "28-01*"\nvariable = "air_temperature'
    )
    plan = planned(tmp_path, REAL + sensor.replace("kind", 'device = "28-03*"\nkind') + other)
    assert lines(plan) == [f"dtoverlay={overlay}", WATCHDOG]
    assert plan.lines[0].reason == f"1-wire on GPIO {pin[-2:] or 4} for tank, air"


def with_pwm(*pins):
    channels = zip(("white", "red", "blue"), pins, strict=False)
    return (
        REAL
        + "[[sensor]]\nname = 'lux'\nkind = 'bh1750'\n[light]\nkind = 'hardware_pwm'\n"
        + "".join(f"[[light.channel]]\nname = '{name}'\npin = {pin}\n" for name, pin in channels)
    )


@pytest.mark.parametrize(
    ("pins", "overlay"),
    [
        ((12,), "pwm,pin=12,func=4"),
        ((19,), "pwm,pin=19,func=2"),
        ((12, 13), "pwm-2chan,pin=12,func=4,pin2=13,func2=4"),
        ((13, 18), "pwm-2chan,pin=18,func=2,pin2=13,func2=4"),
        ((19, 12, 5), "pwm-2chan,pin=12,func=4,pin2=19,func2=2"),
    ],
)
def test_hardware_pwm_needs_its_overlay_and_no_analog_audio(tmp_path, pins, overlay):
    plan = planned(tmp_path, with_pwm(*pins))
    assert lines(plan)[1:3] == ["dtparam=audio=off", f"dtoverlay={overlay}"]
    assert plan.notes == ()


@pytest.mark.parametrize(("pins", "model", "line"), [((12, 13, 18), "5", 1), ((12, 18, 13), "4", 2)])
def test_the_overlay_connects_two_pins_of_different_channels(tmp_path, pins, model, line):
    """A Pi 5 has no analog audio that is switched off before it."""
    plan = planned(tmp_path, with_pwm(*pins), model)
    assert lines(plan)[line] == "dtoverlay=pwm-2chan,pin=12,func=4,pin2=13,func2=4"
    assert "GPIO 18 of the lamp will stay dark" in plan.notes[0]


def bus(number, kind="scd30"):
    return f"{REAL}[[sensor]]\nname = 'air'\nkind = '{kind}'\nbus = {number}\n"


@pytest.mark.parametrize(
    ("model", "number", "expected"),
    [
        ("4", 0, ["dtparam=i2c_vc=on", "dtparam=i2c_vc_baudrate=50000"]),
        ("4", 3, ["dtoverlay=i2c3,baudrate=50000"]),
        ("5", 2, ["dtoverlay=i2c2,baudrate=50000"]),
        ("3", 3, []),
        ("5", 6, []),
    ],
)
def test_other_buses_need_an_overlay_where_the_model_has_them(tmp_path, model, number, expected):
    plan = planned(tmp_path, bus(number), model)
    assert lines(plan) == [*expected, WATCHDOG]
    assert bool(plan.notes) == (not expected)
    assert plan.notes == () or f"dtoverlay=i2c-gpio,bus={number}" in plan.notes[0]


def test_only_an_scd30_needs_a_slow_bus_and_a_simulated_chamber_no_pins(tmp_path):
    assert lines(planned(tmp_path, bus(3, "bh1750"))) == ["dtoverlay=i2c3", WATCHDOG]
    assert lines(planned(tmp_path, "[simulator]\nenabled = true\n")) == [WATCHDOG]


def test_safe_levels_follow_relays_and_lamp(tmp_path):
    text = bus(1) + (
        "[light]\ninverted = true\n[[light.channel]]\nname = 'white'\npin = 5\n"
        "[[output]]\nname = 'fan'\npin = 6\nvariable = 'air_flush_on'\nsafe = 'on'\n"
        "[[output]]\nname = 'valve'\npin = 7\nvariable = 'air_carbon_dioxide_valve_on'\n"
    )
    assert lines(planned(tmp_path, text))[2:] == ["gpio=5,6=op,dh", "gpio=7=op,dl", WATCHDOG]


def test_no_line_is_longer_than_the_firmware_reads(tmp_path):
    relays = "".join(
        f"[[output]]\nname = 'fan{pin}'\npin = {pin}\nvariable = 'air_flush_on'\n" for pin in range(4, 28)
    )
    plan = planned(tmp_path, bus(1) + relays)
    assert tomllib.loads(relays)
    assert max(map(len, lines(plan))) <= 98  # documentation, config.txt, "File format"


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("Raspberry Pi 3 Model B Plus Rev 1.3", {"pi3", "pi3+"}),
        ("Raspberry Pi 3 Model B Rev 1.2", {"pi3"}),
        ("Raspberry Pi 4 Model B Rev 1.4", {"pi4"}),
        ("Raspberry Pi 400 Rev 1.0", {"pi4", "pi400"}),
        ("Raspberry Pi Compute Module 4 Rev 1.1", {"pi4", "cm4"}),
        ("Raspberry Pi 5 Model B Rev 1.0", {"pi5"}),
        ("Raspberry Pi 500 Rev 1.0", {"pi5", "pi500"}),
        ("Raspberry Pi Zero 2 W Rev 1.0", {"pi0", "pi0w", "pi02"}),
        *(
            (name, None)
            for name in (None, "", "Raspberry Pi Zero W Rev 1.1", "Raspberry Pi 2 Model B", "QEMU")
        ),
    ],
)
def test_the_device_tree_names_the_model(name, filters):
    assert getattr(model_named(name), "filters", None) == filters


@pytest.mark.parametrize("model", ["3", "4", "5", "zero2"])
def test_hardware_pwm_of_the_food_computer_works_with_the_change_that_its_comment_names(tmp_path, model):
    assert "# blue to GPIO 16 " in FOOD_COMPUTER
    text = FOOD_COMPUTER.replace('kind = "pwm"', 'kind = "hardware_pwm"').replace("pin = 18", "pin = 16")
    plan = planned(tmp_path, text, model)
    assert "dtoverlay=pwm-2chan,pin=12,func=4,pin2=13,func2=4" in lines(plan)
    assert plan.notes == ()
    (tmp_path / "growd.toml").write_text(text)
    warnings = []
    load(tmp_path / "growd.toml", doubts=DOUBTS, warn=warnings.append)
    assert warnings == []
