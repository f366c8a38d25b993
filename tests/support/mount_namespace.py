"""Real mounts in a mount namespace of their own, which end with their process."""

import shutil
import subprocess

import pytest

READ_ONLY_ROOT = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/overlay /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/overlay,workdir=/mnt/work /mnt/root
for folder in proc dev sys; do mount --rbind /$folder /mnt/root/$folder; done
mount --bind /mnt /mnt/root/mnt
if [ -n "$1" ]; then mount --bind "$1" "/mnt/root$1"; fi
shift
exec chroot /mnt/root "$@"
"""
"""The system below an overlay in memory, as overlayroot makes it; the folder $1 is a disk of its own."""


def on_read_only_root(disk=""):
    """What to put before a command; skips the test where mounts are not allowed."""
    unshare = shutil.which("unshare")
    if unshare is None or _script(unshare, READ_ONLY_ROOT, "sh", "", "true").returncode:
        pytest.skip("this machine does not allow mounts in a namespace")
    return unshare, "-m", "sh", "-c", READ_ONLY_ROOT, "sh", disk


def mounted(script, *arguments):
    """The output of a shell script in a mount namespace; skips the test where that is not allowed."""
    unshare = shutil.which("unshare")
    if unshare is None or _script(unshare, "mount -t tmpfs none /mnt", "sh").returncode:
        pytest.skip("this machine does not allow mounts in a namespace")
    done = _script(unshare, script, "sh", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _script(unshare, script, *arguments):
    return subprocess.run(
        [unshare, "-m", "sh", "-c", script, *arguments], capture_output=True, text=True, check=False
    )
