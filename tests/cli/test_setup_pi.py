"""`growd setup-pi` on the boot partition of a card."""

import os

import pytest
from click.testing import CliRunner

from growd_cli.main import main
from growd_machine.raspberry_pi.boot_files import BootFile
from growd_machine.raspberry_pi.model import PiError
from support.mount_namespace import mounted
from support.program import GROWD

CONFIG = "dtparam=audio=on\n\n[cm4]\notg_mode=1\n\n[all]\n"
SCD30 = "[simulator]\nenabled = false\n[[sensor]]\nname = 'a'\nkind = 'scd30'\n"
CMDLINE = "console=serial0,115200 console=tty1 root=PARTUUID=4d8097e2-02 rootfstype=ext4 rootwait\n"


@pytest.fixture
def card(tmp_path):
    """The file system of a Pi 4 with Raspberry Pi OS bookworm."""
    boot = tmp_path / "boot/firmware"
    boot.mkdir(parents=True)
    (boot / "config.txt").write_text(CONFIG)
    (boot / "cmdline.txt").write_text(CMDLINE)
    (tmp_path / "boot/config.txt").write_text("# the file has moved\n")
    tree = tmp_path / "proc/device-tree"
    tree.mkdir(parents=True)
    (tree / "model").write_bytes(b"Raspberry Pi 4 Model B Rev 1.4\0")
    return tmp_path


def setup_pi(card, *arguments, profile="minimal"):
    profiles = () if profile is None else ("--profile", profile)
    return CliRunner().invoke(main, ["setup-pi", "--root", str(card), *profiles, *arguments])


def content(card):
    boot = card / "boot/firmware"
    return {file.name: file.read_text() for file in boot.iterdir()}


def test_a_dry_run_shows_each_line_with_its_reason_and_writes_nothing(card, said):
    result = setup_pi(card)
    assert result.exit_code == 0
    said([line for line in result.stdout.splitlines() if line.startswith("  ")])
    assert "+enable_uart=1" in result.stdout
    assert "Nothing is written yet: add --write, as root." in result.stdout
    assert content(card) == {"config.txt": CONFIG, "cmdline.txt": CMDLINE}


def test_what_is_written_is_kept_and_taken_back(card):
    result = setup_pi(card, "--write", "--yes")
    assert result.exit_code == 0
    assert "sudo reboot" not in result.stdout  # this is not the machine of the card
    written = content(card)
    assert "enable_uart=1\n" in written["config.txt"]
    assert written["cmdline.txt"] == (
        "console=tty1 root=PARTUUID=4d8097e2-02 rootfstype=ext4 rootwait cgroup_enable=memory\n"
    )
    assert written["config.txt.growd-before"] == CONFIG
    assert written["cmdline.txt.growd-before"] == CMDLINE
    assert written["cmdline.txt.growd-after"] == written["cmdline.txt"]

    again = setup_pi(card, "--write", "--yes")
    assert "The boot files are as growd needs them." in again.stdout
    assert content(card) == written

    shown = setup_pi(card, "--undo").stdout
    assert "-enable_uart=1" in shown
    assert "Nothing is written yet: add --write, as root." in shown
    assert content(card) == written

    (card / "proc/device-tree/model").unlink()  # the way back needs no model
    assert setup_pi(card, "--undo", "--write", "--yes", profile=None).exit_code == 0
    assert content(card) == {"config.txt": CONFIG, "cmdline.txt": CMDLINE}
    assert "There is nothing to take back." in setup_pi(card, "--undo").stdout


def test_without_a_terminal_writing_needs_yes(card):
    result = setup_pi(card, "--write")
    assert (result.exit_code, "there is no terminal to ask at: add --yes" in result.stderr) == (1, True)
    assert content(card)["config.txt"] == CONFIG


def test_the_installed_configuration_is_the_default(card):
    assert f"there is no {card}/etc/growd/growd.toml" in setup_pi(card, profile=None).stderr
    (card / "etc/growd").mkdir(parents=True)
    (card / "etc/growd/growd.toml").write_text(SCD30)
    assert "dtparam=i2c_arm_baudrate=50000" in setup_pi(card, profile=None).stdout


def test_a_card_in_another_computer_needs_the_model(card):
    (card / "proc/device-tree/model").unlink()
    result = setup_pi(card)
    assert result.exit_code == 1
    assert "is not a Raspberry Pi 3, 4, 5 or Zero 2" in result.stderr
    assert "dtparam=uart0=on" in setup_pi(card, "--model", "5").stdout
    assert 'port = "/dev/ttyAMA0"' in setup_pi(card, "--model", "5").stdout


def test_a_system_before_bookworm_has_its_files_in_boot(card):
    for file in (card / "boot/firmware").iterdir():
        file.rename(card / "boot" / file.name)
    (card / "boot/firmware").rmdir()
    setup_pi(card, "--write", "--yes")
    assert "enable_uart=1" in (card / "boot/config.txt").read_text()
    assert (card / "boot/config.txt.growd-before").read_text() == CONFIG


def test_the_file_that_names_the_new_place_is_not_written(card):
    """Raspberry Pi OS bookworm has such a file in /boot, beside the unmounted /boot/firmware."""
    for file in (card / "boot/firmware").iterdir():
        file.unlink()
    result = setup_pi(card, "--write", "--yes")
    assert result.exit_code == 1
    assert result.stderr.startswith("growd: there is no config.txt in ")
    assert "is the boot partition mounted?" in result.stderr
    assert (card / "boot/config.txt").read_text() == "# the file has moved\n"


def test_a_file_that_cannot_be_written_gets_one_sentence_with_the_remedy(card, said):
    folder = card / "boot/firmware/config.txt.part"
    folder.mkdir()  # the place of the new file
    file = BootFile(card / "boot/firmware/config.txt", CONFIG, CONFIG + "#\n")
    with said.raises(PiError):
        file.write()
    assert (card / "boot/firmware/config.txt").read_text() == CONFIG


def test_a_read_only_boot_partition_gets_one_sentence_and_stays_as_it_is(card, said):
    """A real read-only file system."""
    script = """
set -e
boot="$1"/boot/firmware
cp -r "$boot" "$1"/kept
mount -t tmpfs none "$boot"
cp "$1"/kept/* "$boot"
mount -o remount,ro "$boot"
shift
"$@" 2>&1 || true
ls "$boot"
"""
    command = ("setup-pi", "--root", str(card), "--profile", "minimal", "--write", "--yes")
    printed = mounted(script, str(card), str(GROWD), *command).splitlines()
    said(printed[-3])
    assert printed[-2:] == ["cmdline.txt", "config.txt"]


def test_undo_finds_the_command_line_that_config_txt_named_when_it_was_written(card):
    boot = card / "boot/firmware"
    file, own = boot / "config.txt", boot / "old/mine.txt"
    file.write_text("os_prefix=old/\ncmdline=mine.txt\n")
    own.parent.mkdir()
    own.write_text("console=ttyS0,115200 quiet")
    setup_pi(card, "--write", "--yes")
    assert own.read_text() == "quiet cgroup_enable=memory"
    assert (boot / "cmdline.txt").read_text() == CMDLINE
    file.write_text(file.read_text().replace("os_prefix=old/\ncmdline=mine.txt\n", ""))
    setup_pi(card, "--undo", "--write", "--yes")
    assert [path.name for path in own.parent.iterdir()] == ["mine.txt"]
    assert own.read_text() == "console=ttyS0,115200 quiet"
    assert file.read_text() == ""


def test_a_bus_in_software_is_left_alone(card):
    overlay = "dtoverlay=i2c-gpio,i2c_gpio_sda=2,i2c_gpio_scl=3,i2c_gpio_delay_us=10,bus=3\n"
    (card / "boot/firmware/config.txt").write_text(overlay)
    (card / "growd.toml").write_text(f"{SCD30}bus=3\n")
    result = setup_pi(card, "--config", str(card / "growd.toml"), profile=None)
    assert "i2c3" not in result.stdout
    assert "dtparam=watchdog=on" in result.stdout


def test_an_included_file_and_a_pin_that_another_overlay_uses_are_named(card, said):
    (card / "boot/firmware/config.txt").write_text(
        "include more.txt\n[pi5]\ndtoverlay=gpio-fan,gpiopin=12\n[all]\ndtoverlay=gpio-fan,gpiopin=18\n"
    )
    printed = setup_pi(card, profile="food-computer").stdout
    said([line for line in printed.splitlines() if line.startswith("note: ")])


def test_bytes_that_are_not_text_survive_and_the_files_stay_readable(card):
    file = card / "boot/firmware/config.txt"
    old = b"# caf\xe9 \x85\xa0\r\ndtparam=i2c_arm=off\r\n\xff"
    file.write_bytes(old)
    umask = os.umask(0o077)
    try:
        setup_pi(card, "--write", "--yes", profile="food-computer")
    finally:
        os.umask(umask)
    assert b"\r\ndtparam=i2c_arm=on\r\n" in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o644
    setup_pi(card, "--undo", "--write", "--yes")
    assert file.read_bytes() == old


def test_undo_removes_copies_that_remained_after_a_repair_by_hand(card):
    setup_pi(card, "--write", "--yes")
    for name, text in {"config.txt": CONFIG, "cmdline.txt": CMDLINE}.items():
        (card / "boot/firmware" / name).write_text(text)
    assert "There is nothing to take back." in setup_pi(card, "--undo").stdout
    assert "config.txt.growd-before" in content(card)
    assert "There is nothing to take back." in setup_pi(card, "--undo", "--write").stdout
    assert content(card) == {"config.txt": CONFIG, "cmdline.txt": CMDLINE}


def test_a_boot_partition_may_be_mounted_by_itself(card):
    boot = card / "boot/firmware"
    assert "for a card of one add --model" in setup_pi(boot).stderr
    assert setup_pi(boot, "--model", "4", "--write", "--yes").exit_code == 0
    assert "enable_uart=1\n" in content(card)["config.txt"]
    assert setup_pi(boot, "--undo", "--write", "--yes").exit_code == 0
    assert content(card) == {"config.txt": CONFIG, "cmdline.txt": CMDLINE}


@pytest.mark.parametrize("name", ["../../../other.txt", "{outside}"])
def test_a_command_line_outside_the_card_is_refused(card, tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("outside") / "other.txt"
    outside.write_text("secret\n")
    (card / "other.txt").write_text("secret\n")
    (card / "boot/firmware/config.txt").write_text(f"cmdline={name.format(outside=outside)}\n")
    result = setup_pi(card, "--write", "--yes")
    assert result.exit_code == 1
    assert " leads out of " in result.stderr
    for file in (outside, card / "other.txt"):
        assert file.read_text() == "secret\n"
        assert not file.with_name("other.txt.growd-before").exists()


@pytest.mark.parametrize("place", ["boot/firmware", "boot/firmware/config.txt", "boot/firmware/cmdline.txt"])
@pytest.mark.parametrize("way", ["--write", "--undo"])
def test_a_link_out_of_the_card_is_refused(card, tmp_path_factory, place, way):
    setup_pi(card, "--write", "--yes")
    outside = tmp_path_factory.mktemp("outside") / "it"
    (card / place).rename(outside)
    (card / place).symlink_to(outside)
    before = {file: file.read_bytes() for file in outside.parent.rglob("*") if file.is_file()}
    result = setup_pi(card, way, "--write", "--yes", profile="food-computer")
    assert result.exit_code == 1
    assert f" leads out of {card}" in result.stderr
    assert before == {file: file.read_bytes() for file in outside.parent.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", ["config.txt", "cmdline.txt"])
def test_a_pipe_in_place_of_a_boot_file_does_not_hang(card, name):
    (card / "boot/firmware" / name).unlink()
    os.mkfifo(card / "boot/firmware" / name)
    (card / "boot/config.txt").unlink()
    result = setup_pi(card)
    assert result.exit_code == 1
    assert "is not a file" in result.stderr or "there is no config.txt" in result.stderr


def test_pins_that_share_a_channel_on_older_models_are_no_matter_on_a_pi_5(card):
    (card / "proc/device-tree/model").write_bytes(b"Raspberry Pi 5 Model B Rev 1.0\0")
    (card / "growd.toml").write_text(
        "[simulator]\nenabled = false\n[[sensor]]\nname = 'lux'\nkind = 'bh1750'\n"
        "[light]\nkind = 'hardware_pwm'\n"
        "[[light.channel]]\nname = 'white'\npin = 12\n[[light.channel]]\nname = 'blue'\npin = 18\n"
    )
    result = setup_pi(card, "--config", str(card / "growd.toml"), profile=None)
    assert "dtoverlay=pwm-2chan,pin=12,func=4,pin2=18,func2=2" in result.stdout
    assert "warning" not in result.stdout
    assert "note" not in result.stdout
