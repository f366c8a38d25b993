import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from growd_machine.installation.data_copy import back_up, restore

NOBODY = 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_root_copies_the_data_as_their_owner():
    with TemporaryDirectory() as name:  # pytest's folders are closed to others
        Path(name).chmod(0o755)
        data = Path(name) / "data"
        data.mkdir()
        (data / "points.log").write_bytes(b"points")
        (data / "points.log").chmod(0o600)
        secret = Path(name) / "secret"
        secret.write_text("of root")
        secret.chmod(0o600)
        (data / "link").symlink_to(secret)
        for path in (data, data / "points.log"):
            os.chown(path, NOBODY, NOBODY)
        back_up(data, b"# configuration", "before")
        copied = {path.name: path.stat().st_uid for path in (data / "backups/before").iterdir()}
        assert copied == {"points.log": NOBODY, "configuration": NOBODY}
        assert os.geteuid() == 0
        (data / "points.log").write_bytes(b"of the trial")
        restore(data, "before", "before-trial")
        assert (data / "points.log").read_bytes() == b"points"
        assert (data / "backups/before-trial/points.log").read_bytes() == b"of the trial"
        assert not (data / "backups/before").exists()
