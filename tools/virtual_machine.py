"""Virtual machines with the header of a Raspberry Pi: Debian with systemd in QEMU. `tools/vm` is the command.

An `Image` is made once by mmdebstrap and cached. A `VirtualMachine` runs on a disk of its own, which stores
only the differences from the disk of an image or of another machine. It boots, or resumes the saved state of
another machine. Commands go through QEMU's guest agent, so they need neither a network nor a login.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "hw-sim" / "kernel"
MIRROR = os.environ.get("GROWD_VM_MIRROR", "http://deb.debian.org/debian")
PACKAGES = (  # what growd needs of Raspberry Pi OS Lite, and no more: no pip, venv, git, Node or compiler
    *("systemd-sysv", "udev", "dbus", "kmod", "procps", "e2fsprogs", "iproute2", "ca-certificates"),
    *("python3", "initramfs-tools", "busybox", "overlayroot", "qemu-guest-agent"),
)
BUILD_PACKAGES = ("gcc", "make")  # for the kernel module; removed again
DISK = "3G"
BOOT_S = 120.0
ANSWER_S = 60.0  # of the guest agent, which a full disk or a busy computer delays
SLOWER_WITHOUT_KVM = 10

_PREPARE = r"""
set -eu
kernel=$(basename "$(readlink -f /vmlinuz)"); kernel=${kernel#vmlinuz-}
make -C /usr/src/growd_pi KERNEL="/lib/modules/$kernel/build"
install -D -m 644 /usr/src/growd_pi/growd_pi.ko "/lib/modules/$kernel/extra/growd_pi.ko"
rm -r /usr/src/growd_pi
DEBIAN_FRONTEND=noninteractive apt-get -y -q purge --auto-remove "linux-headers-$1" gcc make
printf '%s\n' virtio_pci virtio_blk ext4 overlay >>/etc/initramfs-tools/modules
depmod "$kernel"
update-initramfs -u
cp "/boot/vmlinuz-$kernel" /vmlinuz.out
cp "/boot/initrd.img-$kernel" /initrd.out
echo growd-vm >/etc/hostname
echo '127.0.0.1 localhost growd-vm' >/etc/hosts
echo '/dev/vda / ext4 errors=remount-ro 0 1' >/etc/fstab
printf '%s\n' growd_pi i2c-dev i6300esb 9pnet_virtio >/etc/modules-load.d/growd-vm.conf
printf 'blacklist %s\n' i2c_i801 iTCO_wdt >/etc/modprobe.d/growd-vm.conf  # what a Pi does not have
echo 'f+ /etc/resolv.conf - - - - nameserver 10.0.2.3' >/etc/tmpfiles.d/growd-vm.conf
printf '[Match]\nName=e*\n[Network]\nDHCP=ipv4\n' >/etc/systemd/network/growd-vm.network
mkdir -p /var/log/journal /host /etc/systemd/system/serial-getty@.service.d
printf '[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200,9600 - $TERM\n' \
    >/etc/systemd/system/serial-getty@.service.d/growd-vm.conf
systemctl enable systemd-networkd
systemctl disable systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer
systemctl disable e2scrub_all.timer e2scrub_reap fstrim.timer
systemd-machine-id-setup
passwd -d root
"""


class VirtualMachineError(Exception):
    """A virtual machine could not be made or did not do what was asked; the message says what and why."""


def missing() -> str:
    """Why no virtual machine can be made or run here; empty if all is there."""
    wanted = ("qemu-system-x86_64", "qemu-img", "mmdebstrap", "mke2fs")
    absent = [name for name in wanted if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} missing (Debian: qemu-system-x86 qemu-utils mmdebstrap e2fsprogs)"
    if os.geteuid() != 0 and shutil.which("newuidmap") is None:
        return "needs root, or newuidmap (Debian: uidmap)"
    return ""


def has_kvm() -> bool:
    """Whether KVM runs any system: a processor without virtualization runs only kernels made for it."""
    with Path("/proc/cpuinfo").open(encoding="ascii") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and not {"vmx", "svm"}.isdisjoint(flags)


def default_cache() -> Path:
    """Folder of the images: $GROWD_VM_CACHE, or growd-vm in the user's cache folder."""
    named = os.environ.get("GROWD_VM_CACHE")
    return (
        Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "growd-vm"
    )


@dataclass(frozen=True)
class Image:
    """Debian of one suite and machine type. `cache` is the folder of all images."""

    suite: str = "trixie"
    architecture: str = "amd64"
    cache: Path = field(default_factory=default_cache)

    @property
    def folder(self) -> Path:
        """Its place. The name changes with all that the image is made from, except Debian's packages."""
        parts = [repr((PACKAGES, BUILD_PACKAGES, DISK, _PREPARE)).encode()]
        parts += [file.read_bytes() for file in (MODULE / "growd_pi.c", MODULE / "Makefile")]
        digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:8]
        return self.cache / f"{self.suite}-{self.architecture}-{digest}"

    @property
    def disk(self) -> Path:
        return self.folder / "root.img"

    @property
    def is_built(self) -> bool:
        return self.disk.exists()

    @contextmanager
    def machine(self, folder: Path, *, share: Path = ROOT, network: bool = False) -> Iterator[VirtualMachine]:
        """A running machine with nothing installed: the first boots, later ones resume its state."""
        name = f"booted-{'kvm' if has_kvm() else 'emulated'}"
        disk, state = self.folder / f"{name}.qcow2", self.folder / f"{name}.state"
        with locked(self.folder / "booted.lock"):
            if not state.exists():
                first = VirtualMachine(self, new_disk(disk, self.disk), folder)
                with first:
                    first.start()
                    first.save(state)
        own = new_disk(folder / "root.qcow2", disk)
        with VirtualMachine(self, own, folder, share=share, network=network) as machine:
            machine.resume(state)
            yield machine

    def build(self, *, anew: bool = False, log: Path | None = None) -> None:
        """Make the image unless it is there: some minutes, mostly for the download. Others wait meanwhile.

        Images of other checkouts stay: kept machines may be based on them.
        """
        self.cache.mkdir(parents=True, exist_ok=True)
        with locked(self.cache / f"{self.suite}-{self.architecture}.lock"):
            if self.is_built and not anew:
                return
            with tempfile.TemporaryDirectory(dir=self.cache, prefix="building-") as name:
                work = Path(name)
                work.chmod(0o777)  # for the user of mmdebstrap's namespace
                self._fill(work, log or self.cache / f"{self.suite}-{self.architecture}.log")
                if self.folder.exists():
                    shutil.rmtree(self.folder)
                self.folder.mkdir()
                for part in ("vmlinuz", "initrd.img", "root.img"):  # the disk last: it completes the image
                    (work / part).rename(self.folder / part)

    def _fill(self, work: Path, log: Path) -> None:
        with log.open("wb") as output:
            for step in (self._mmdebstrap(work), *self._disk_from_tar(work)):
                done = subprocess.run(
                    step, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False
                )
                if done.returncode:
                    raise VirtualMachineError(f"{step[0]} failed with status {done.returncode}; see {log}")

    def _mmdebstrap(self, work: Path) -> list[str]:
        script = work / "prepare"
        script.write_text(_PREPARE, encoding="ascii")
        backports = f"{self.suite}-backports"
        old = self.suite == "bookworm"  # Raspberry Pi OS has Linux 6.12 there; Debian has it in its backports
        kernel = [f"linux-image-{self.architecture}", f"linux-headers-{self.architecture}"]
        sources = [f"deb {MIRROR} {self.suite} main", f"deb {MIRROR} {self.suite}-updates main"]
        if old:
            sources.append(f"deb {MIRROR} {backports} main")
            kernel = [f"{name}/{backports}" for name in kernel]
        return [
            "mmdebstrap",
            "--variant=minbase",
            "--format=tar",
            f"--architectures={self.architecture}",
            f"--include={','.join([*PACKAGES, *BUILD_PACKAGES, *kernel])}",
            "--skip=cleanup/reproducible",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")),
            '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
            '--essential-hook=echo MODULES=list >"$1/etc/initramfs-tools/conf.d/growd-vm"',
            '--customize-hook=mkdir -p "$1/usr/src/growd_pi"',
            f"--customize-hook=copy-in {MODULE / 'growd_pi.c'} {MODULE / 'Makefile'} /usr/src/growd_pi",
            f"--customize-hook=copy-in {script} /tmp",
            f'--customize-hook=chroot "$1" sh /tmp/prepare {self.architecture}',
            f"--customize-hook=download /vmlinuz.out {work / 'vmlinuz'}",
            f"--customize-hook=download /initrd.out {work / 'initrd.img'}",
            '--customize-hook=rm "$1/vmlinuz.out" "$1/initrd.out" "$1/tmp/prepare"',
            self.suite,
            str(work / "root.tar"),
            *sources,
        ]

    def _disk_from_tar(self, work: Path) -> list[list[str]]:
        """Commands that make the disk, with the owners of all files: as root or in mmdebstrap's namespace."""
        unpack = 'cd "$1" && mkdir tree && tar --numeric-owner -xf root.tar -C tree && rm -f root.tar'
        make = f"mke2fs -q -F -t ext4 -d tree root.img {DISK}; status=$?; rm -rf tree; exit $status"
        helper = [] if os.geteuid() == 0 else ["mmdebstrap", "--unshare-helper"]
        return [
            ["truncate", "--size", DISK, str(work / "root.img")],
            ["chmod", "666", str(work / "root.img"), str(work / "root.tar")],
            [*helper, "sh", "-c", f"{unpack} && {{ {make}; }}", "sh", str(work)],
        ]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, across processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def new_disk(path: Path, base: Path) -> Path:
    """A disk that stores only what differs from `base`: the disk of an image, or of a machine that is off."""
    kind = "raw" if base.suffix == ".img" else "qcow2"
    _run_tool(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", kind, str(path)])
    return path


def empty_disk(path: Path, mib: int) -> Path:
    """A raw disk with an empty ext4 file system."""
    _run_tool(["truncate", "--size", f"{mib}M", str(path)])
    _run_tool(["mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", str(path)])
    return path


def _run_tool(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise VirtualMachineError(f"{command[0]} failed: {done.stderr.strip()}")


@dataclass(frozen=True)
class Result:
    """How a command in the machine ended."""

    status: int
    output: str
    errors: str


class VirtualMachine:
    """A machine on `disk`. Its files (console.log, sockets) are in `folder`.

    `share` is a folder of this computer that the machine sees below /host, read only. `disks` are further raw
    disks: /dev/vdb and so on. `options` are added to the kernel's command line.
    """

    def __init__(
        self,
        image: Image,
        disk: Path,
        folder: Path,
        *,
        share: Path = ROOT,
        disks: Sequence[Path] = (),
        options: str = "",
        network: bool = False,
        memory_mib: int = 1024,
    ) -> None:
        self.image = image
        self.disk = disk
        self.folder = folder
        self.options = options
        self._share = share
        self._disks = disks
        self._network = network
        self._memory_mib = memory_mib
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: Path | None = None
        self._agent: _JsonSocket | None = None
        self._control: _JsonSocket | None = None

    @property
    def slowness(self) -> int:
        """Factor for time limits."""
        return 1 if self.image.architecture == "amd64" and has_kvm() else SLOWER_WITHOUT_KVM

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    def start(self) -> None:
        """Switch on, and wait until commands work and the start of all services is over."""
        self.switch_on()
        self.wait_until_ready()

    def resume(self, state: Path) -> None:
        """Continue what `save` stored, on a disk made from the disk of that machine."""
        self.switch_on("-incoming", f"exec:cat {shlex.quote(str(state))}")
        limit = time.monotonic() + 60
        while self.control("query-status")["status"] != "running":
            if time.monotonic() > limit:
                raise VirtualMachineError(f"cannot resume {state}; see {self.folder / 'qemu.log'}")
            time.sleep(0.05)
        self.wait_until_ready()
        self.run(f"date --set=@{time.time():.0f}")

    def save(self, state: Path) -> None:
        """Store memory and devices in a file, and switch off. The disk must stay as it is from then on."""
        self.run("umount /host || true; sync")
        self.control("migrate", uri=f"exec:cat >{shlex.quote(str(state))}")
        while (now := self.control("query-migrate")["status"]) != "completed":
            if now in ("failed", "cancelled"):
                raise VirtualMachineError(f"saving the machine failed; see {self.folder / 'qemu.log'}")
            time.sleep(0.05)
        self.power_cut()

    def switch_on(self, *options: str) -> None:
        """Start QEMU, with further options."""
        self._sockets = Path(tempfile.mkdtemp(prefix="vm-"))  # the path of a socket has at most 107 bytes
        ends_with_us = ["setpriv", "--pdeathsig=KILL"]  # also when this program is killed
        program = [*ends_with_us, *self.command(), "-serial", f"file:{self.console}", "-display", "none"]
        with (self.folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*program, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._control = _JsonSocket(self._sockets / "control", self._process)
        self._control.receive(10)  # its greeting
        self.control("qmp_capabilities")

    def command(self) -> list[str]:
        """QEMU's command line, except where the console goes."""
        sockets = self._sockets or self.folder
        console = "ttyAMA0" if self.image.architecture == "arm64" else "ttyS0"
        devices = ["-device", "virtio-serial"]
        devices += ["-chardev", f"socket,id=agent,path={sockets / 'agent'},server=on,wait=off"]
        devices += ["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"]
        devices += ["-device", "i6300esb", "-action", "watchdog=reset", "-device", "virtio-rng-pci"]
        devices += ["-nic", f"user,model=virtio-net-pci{'' if self._network else ',restrict=on'}"]
        share = f"local,path={self._share},mount_tag=host,security_model=none,readonly=on,multidevs=remap"
        devices += ["-virtfs", share]
        disks = ["-drive", f"file={self.disk},format=qcow2,if=virtio,discard=unmap"]
        for disk in self._disks:
            disks += ["-drive", f"file={disk},format=raw,if=virtio,discard=unmap"]
        return [
            *_machine(self.image),
            *("-smp", "2", "-m", str(self._memory_mib), "-nodefaults", "-no-user-config"),
            *(
                "-kernel",
                str(self.image.folder / "vmlinuz"),
                "-initrd",
                str(self.image.folder / "initrd.img"),
            ),
            *("-append", f"root=/dev/vda rw console={console} net.ifnames=0 quiet {self.options}".rstrip()),
            *disks,
            *devices,
            *("-qmp", f"unix:{sockets / 'control'},server=on,wait=off"),
        ]

    def wait_until_ready(self, unlike: str = "") -> None:
        """Wait for the start of the system; with `unlike`, for one with another boot id."""
        limit = time.monotonic() + BOOT_S * self.slowness
        while True:
            with suppress(VirtualMachineError):
                boot = self.run("cat /proc/sys/kernel/random/boot_id", timeout_s=5 * self.slowness)
                if boot != unlike:
                    break
            if self._process is None or self._process.poll() is not None:
                raise VirtualMachineError(f"QEMU ended; see {self.folder / 'qemu.log'}")
            if time.monotonic() > limit:
                raise VirtualMachineError(
                    f"the machine does not answer after {BOOT_S:.0f} s; see {self.console}"
                )
            time.sleep(0.1)
        self.result("systemctl is-system-running --wait", timeout_s=BOOT_S)
        self.run("mountpoint -q /host || mount -t 9p -o trans=virtio,ro,msize=131072 host /host")

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id")

    def reboot(self) -> None:
        """Shut down and start again, as a user does."""
        boot = self.boot_id()
        self.run("systemctl --no-block reboot")
        self.wait_until_ready(boot)

    def power_cut(self) -> None:
        """Switch off without a shutdown. The disk keeps what the system had written to it."""
        if self._control is not None:
            with suppress(VirtualMachineError):
                self.control("quit")
        self._ended(30)

    def shut_down(self) -> None:
        """Shut down and switch off."""
        self.run("systemctl --no-block poweroff")
        self._ended(60 * self.slowness)

    def control(self, command: str, **arguments: Any) -> Any:
        """A command of QEMU's control protocol (QMP)."""
        assert self._control is not None
        return self._control.ask(command, arguments, timeout_s=30)

    def run(self, command: str, *, stdin: str = "", timeout_s: float = 120) -> str:
        """What a shell command printed, without white space at the ends; an error if it failed."""
        done = self.result(command, stdin=stdin, timeout_s=timeout_s)
        if done.status:
            said = (done.errors or done.output).strip()
            raise VirtualMachineError(f"{command!r} ended with status {done.status}: {said}")
        return done.output.strip()

    def result(self, command: str, *, stdin: str = "", timeout_s: float = 120) -> Result:
        """Run a shell command as root and wait for its end."""
        limit = time.monotonic() + timeout_s * self.slowness
        arguments = {"path": "/bin/sh", "arg": ["-c", command], "capture-output": True}
        if stdin:
            arguments["input-data"] = base64.b64encode(stdin.encode()).decode()
        answer_s = min(timeout_s, ANSWER_S)
        number = self._ask_agent("guest-exec", arguments, answer_s)["pid"]
        while time.monotonic() < limit:
            state = self._ask_agent("guest-exec-status", {"pid": number}, answer_s)
            if state["exited"]:
                status = state.get("exitcode", 128 + state.get("signal", 0))
                return Result(status, _text(state.get("out-data", "")), _text(state.get("err-data", "")))
            time.sleep(0.02)
        raise VirtualMachineError(f"{command!r} did not end within {timeout_s:.0f} s")

    def _ask_agent(self, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        if self._agent is None:
            assert self._sockets is not None
            assert self._process is not None
            agent = _JsonSocket(self._sockets / "agent", self._process)
            try:
                agent.synchronize(timeout_s=2 * self.slowness)
            except VirtualMachineError:
                agent.close()
                raise
            self._agent = agent
        try:
            return self._agent.ask(command, arguments, timeout_s=timeout_s * self.slowness)
        except VirtualMachineError:
            self._agent.close()
            self._agent = None
            raise

    def _ended(self, timeout_s: float) -> None:
        process, self._process = self._process, None
        for opened in (self._agent, self._control):
            if opened is not None:
                opened.close()
        self._agent = self._control = None
        if process is not None:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._sockets is not None:
            shutil.rmtree(self._sockets)
            self._sockets = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.power_cut()


def _machine(image: Image) -> list[str]:
    if image.architecture == "arm64":
        machine = ["-machine", "virt,gic-version=3", "-cpu", "cortex-a72", "-accel", "tcg,thread=multi"]
        tree = image.folder / "pi.dtb"
        return ["qemu-system-aarch64", *machine, *(["-dtb", str(tree)] if tree.exists() else [])]
    emulation = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off"]
    accelerator = ["-accel", "kvm", "-cpu", "host"] if has_kvm() else emulation
    return ["qemu-system-x86_64", "-machine", "q35", *accelerator]


def _text(data: str) -> str:
    return base64.b64decode(data).decode(errors="replace")


class _JsonSocket:
    """QEMU's two protocols, control (QMP) and guest agent: one JSON value for each line."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received = b""
        limit = time.monotonic() + 10
        while self._socket.connect_ex(str(path)):
            if process.poll() is not None or time.monotonic() > limit:
                self._socket.close()
                raise VirtualMachineError("QEMU did not start; see qemu.log")
            time.sleep(0.02)

    def close(self) -> None:
        self._socket.close()

    def synchronize(self, timeout_s: float) -> None:
        """Drop what an earlier conversation left, and find the agent alive."""
        number = time.monotonic_ns() & 0x7FFFFFFF
        request = {"execute": "guest-sync-delimited", "arguments": {"id": number}}
        self._socket.sendall(b"\xff" + json.dumps(request).encode() + b"\n")
        while self.receive(timeout_s).get("return") != number:
            pass

    def ask(self, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        request = {"execute": command, "arguments": arguments} if arguments else {"execute": command}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise VirtualMachineError(f"{command}: the machine is off") from error
        while True:
            answer = self.receive(timeout_s)
            if "error" in answer:
                raise VirtualMachineError(f"{command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next message. Events of the control protocol are messages too."""
        limit = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            self._socket.settimeout(max(limit - time.monotonic(), 0.01))
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError as error:
                raise VirtualMachineError(f"no answer within {timeout_s:.0f} s") from error
            except OSError as error:
                raise VirtualMachineError("the machine is off") from error
            if not data:
                raise VirtualMachineError("the machine is off")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        try:
            message = json.loads(line.lstrip(b"\xff"))
        except ValueError:
            return {}  # a rest of an earlier conversation
        return message if isinstance(message, dict) else {}
