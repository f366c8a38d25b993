import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd_machine.raspberry_pi.cmdline import taken_back, with_words, words_in
from growd_machine.raspberry_pi.config_txt import Wanted, settings_in, undone, value_of, with_wanted
from growd_machine.raspberry_pi.plan import CONSOLES

PI4 = frozenset({"pi4"})
I2C = Wanted("dtparam=i2c_arm=on", "the sensors")
SPEED = Wanted("dtparam=i2c_arm_baudrate=50000", "50 kHz")
UART = Wanted("enable_uart=1", "the port")
PWM = Wanted("dtoverlay=pwm-2chan,pin=12,func=4,pin2=13,func2=4", "the lamp")
PINS = Wanted("gpio=23,24=op,dh", "safe")
ALL = (I2C, SPEED, UART, PWM, PINS)

# as Raspberry Pi OS bookworm ships it, shortened
SHIPPED = """\
# For more options and information see
# http://rptl.io/configtxt
#dtparam=i2c_arm=on
#dtparam=spi=on

# Enable audio (loads snd_bcm2835)
dtparam=audio=on

dtoverlay=vc4-kms-v3d
max_framebuffers=2

[cm4]
otg_mode=1

[cm5]
dtoverlay=dwc2,dr_mode=host

[all]
"""

LINES = st.sampled_from(
    [
        "# a comment", "#dtparam=i2c_arm=on", "", "[all]", "[pi4]", "[pi5]", "[none]", "[gpio4=1]",
        "[EDID=X]",
        "dtparam=i2c_arm=on", "dtparam=i2c_arm=off", "dtparam=i2c=on,spi=on", "dtparam=i2c_arm",
        "dtparam=i2c_arm=off,i2c_arm_baudrate=400000", "dtparam=i2c_baudrate=50000", "dtparam=audio=on",
        "dtoverlay=vc4-kms-v3d", "dtoverlay=pwm", "dtoverlay=pwm-2chan", "dtoverlay=pwm-2chan,pin=12,func=4",
        "dtoverlay=w1-gpio,gpiopin=23", "enable_uart=0", "enable_uart=1", "gpio=23=op,dl", "gpio=22-25=op,dh",
        "gpio=24=ip", "include more.txt", "  dtparam=i2c_arm=off  ", "over\x85lay\xa0=\xff",
        "initramfs a followkernel",
    ]
)  # fmt: skip
TEXTS = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else ""),
    st.lists(
        LINES | st.text(st.characters(codec="latin-1", exclude_characters="\n"), max_size=20), max_size=20
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
).filter(lambda text: "# growd" not in text)
WANTED = st.lists(st.sampled_from(ALL), unique=True)


def written(text, *wanted):
    return with_wanted(text, wanted or ALL, PI4)[0]


@given(TEXTS, WANTED)
def test_undo_gives_the_text_of_before(text, wanted):
    assert undone(with_wanted(text, wanted, PI4)[0]) == text


@given(TEXTS, WANTED, WANTED)
def test_writing_again_changes_nothing_and_forgets_earlier_wishes(text, wanted, earlier):
    once = with_wanted(text, wanted, PI4)[0]
    assert with_wanted(once, wanted, PI4)[0] == once
    assert with_wanted(with_wanted(text, earlier, PI4)[0], wanted, PI4)[0] == once


@given(TEXTS, WANTED)
def test_no_line_of_the_owner_is_lost(text, wanted):
    new = with_wanted(text, wanted, PI4)[0]
    kept = [re.sub(r"^# growd [0-9a-f]{8} changed: ", "", line) for line in new.split("\n")]
    remaining = iter(line.rstrip("\r") for line in kept)
    assert all(line.rstrip("\r") in remaining for line in text.split("\n") if line.strip())


@given(TEXTS, WANTED)
def test_a_pi_that_reads_the_file_gets_what_is_wanted(text, wanted):
    """A reader of the rules, written apart from the code: the last value of each parameter counts."""
    values, pins, overlays = {}, {}, {}
    for line in settings_in(with_wanted(text, wanted, PI4)[0], PI4):
        key, _, value = line.partition("=")
        if key == "dtparam":
            for part in value.split(","):
                name, _, setting = part.partition("=")
                name = {"i2c": "i2c_arm", "i2c_baudrate": "i2c_arm_baudrate"}.get(name.strip(), name.strip())
                values[f"dtparam={name}"] = setting or "on"
        elif key == "gpio" and (found := re.fullmatch(r"([0-9,-]+)=([a-z,]+)", value)):
            for part in found[1].split(","):
                first, _, last = part.partition("-")
                pins |= dict.fromkeys(range(int(first), int(last or first) + 1), found[2])
        elif key == "dtoverlay":
            name, _, parameters = value.partition(",")
            overlays[name.split("-")[0]] = parameters
        else:
            values[key] = value
    for item in wanted:
        if item is PWM:
            assert overlays["pwm"] == item.line.partition(",")[2]
        elif item is PINS:
            assert pins[23] == pins[24] == "op,dh"
        else:
            key, _, value = item.line.rpartition("=")
            assert values[key] == value


@given(TEXTS, WANTED, LINES)
def test_lines_that_the_owner_adds_later_stay(text, wanted, line):
    new = with_wanted(text, wanted, PI4)[0]
    assert undone(f"{new}\n{line}").endswith(f"\n{line}")
    assert undone(f"{line}\n{new}") == f"{line}\n{text}"


def test_the_shipped_file_gets_its_lines_at_the_end_and_one_that_is_edited_belongs_to_the_owner():
    new = written(SHIPPED, I2C, SPEED)
    assert new.startswith(SHIPPED)
    assert settings_in(new[len(SHIPPED) :], PI4) == ["dtoverlay=", I2C.line, SPEED.line]
    assert "[all]" in new[len(SHIPPED) :]
    edited = new.replace("baudrate=50000", "baudrate=10000")
    assert undone(edited) == SHIPPED + "dtparam=i2c_arm_baudrate=10000\n"


def test_a_line_that_says_otherwise_is_changed_in_place_below_its_old_text():
    text = SHIPPED + "dtparam=i2c_arm=off,i2c_arm_baudrate=400000\nenable_uart=0"
    new, changes = with_wanted(text, (I2C, SPEED, UART), PI4)
    assert [(change.line, change.before) for change in changes] == [
        ("dtparam=i2c_arm=on,i2c_arm_baudrate=50000", "dtparam=i2c_arm=off,i2c_arm_baudrate=400000"),
        ("enable_uart=1", "enable_uart=0"),
    ]
    lines = new.split("\n")
    assert lines[-1] == "enable_uart=1"
    assert lines[-2].endswith("changed: enable_uart=0")
    assert undone(new) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dtparam=i2c_arm=on", I2C),
        ("dtparam=i2c=on,spi=on", I2C),
        ("dtparam=i2c_arm", I2C),
        ("[pi4]\ndtparam=i2c_arm=on", I2C),
        ("dtparam=i2c_arm=on\n[none]\ndtparam=i2c_arm=off", I2C),
        ("[pi5]\ndtparam=i2c_arm=off\n[pi4]\ndtparam=i2c_arm=on", I2C),
        ("gpio=20-25=op,dh", PINS),
        ("gpio=23=op,dh\ngpio=24=op,pu,dh", PINS),
        ("dtoverlay=pwm-2chan,func2=4,pin2=13,func=4,pin=12,clock=1", PWM),
    ],
)
def test_a_file_that_says_so_already_stays_as_it_is(text, wanted):
    assert with_wanted(text, (wanted,), PI4) == (text, ())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#dtparam=i2c_arm=on", I2C),
        ("[none]\ndtparam=i2c_arm=on", I2C),
        ("[pi3]\ndtparam=i2c_arm=on", I2C),
        ("[pi3]\n[pi4]\n[none]\ndtparam=i2c_arm=on", I2C),
        ("[gpio4=1]\ndtparam=i2c_arm=on", I2C),
        ("dtparam=i2c_arm=on\n[EDID=VSC-TD2220]\ndtparam=i2c_arm=off", I2C),
        ("gpio=23,24=op,dh\ngpio=24=ip", PINS),
        ("gpio=23,24=op,dh\n[gpio4=1]\ngpio=24=ip", PINS),
    ],
)
def test_a_line_that_may_not_hold_does_not_count(text, wanted):
    new = written(text, wanted)
    assert new.startswith(text)
    assert new.endswith(f"{wanted.line}\n")


def test_one_overlay_for_pwm_replaces_the_other_and_one_of_the_owner_keeps_its_other_parameters():
    new, (change,) = with_wanted("dtoverlay=pwm,pin=18,func=2\n", (PWM,), PI4)
    assert (change.before, change.line) == ("dtoverlay=pwm,pin=18,func=2", PWM.line)
    assert settings_in(new, PI4) == [PWM.line]
    slow = Wanted("dtoverlay=i2c3,baudrate=50000", "50 kHz")
    new, _ = with_wanted("dtoverlay=i2c3,pins_2_3\n", (slow,), PI4)
    assert settings_in(new, PI4) == ["dtoverlay=i2c3,pins_2_3,baudrate=50000"]


def test_the_last_plain_option_that_holds_counts():
    text = "cmdline=a.txt\n[pi5]\ncmdline=b.txt\n[pi4]\ncmdline=c.txt \n[none]\ncmdline=d.txt\n"
    assert value_of(text, "cmdline", PI4) == "c.txt"
    assert value_of(text, "kernel", PI4) is None


WORDS = [
    "console=serial0,115200",
    "console=tty1",
    "root=PARTUUID=1-02",
    "cgroup_enable=memory",
    "a\x85b",
    "\xa0",
]
COMMAND_LINES = st.builds(
    lambda words, gap, end: gap.join(words) + end,
    st.lists(st.sampled_from(WORDS)),
    st.sampled_from([" ", "  ", "\t"]),
    st.sampled_from(["", "\n", " \r\n", "\nmore\n"]),
)


@given(COMMAND_LINES)
def test_the_command_line_stays_one_line_and_comes_back(text):
    new = with_words(text, ["cgroup_enable=memory"], CONSOLES)
    assert words_in(new).count("cgroup_enable=memory") >= 1
    assert not [word for word in words_in(new) if word.startswith("console=serial0")]
    assert new.count("\n") == text.count("\n")
    assert with_words(new, ["cgroup_enable=memory"], CONSOLES) == new
    assert taken_back(new, text, new) == text


@pytest.mark.parametrize(
    ("removed", "changed", "back"),
    [
        (CONSOLES, ("rootwait", "rootwait quiet"), "console=serial0,115200 console=tty1 rootwait quiet\n"),
        ((), ("console=serial0,115200 ", ""), "console=tty1 rootwait\n"),
    ],
    ids=["added a word", "removed a console"],
)
def test_what_the_owner_changed_later_stays(removed, changed, back):
    before = "console=serial0,115200 console=tty1 rootwait\n"
    after = with_words(before, ["cgroup_enable=memory"], removed)
    assert taken_back(after.replace(*changed), before, after) == back
