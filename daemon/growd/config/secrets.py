"""Where a file with a secret is that the configuration names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
"""Set by systemd for a unit with LoadCredential=; systemd.exec(5), "Credentials"."""


_OF_A_FOLDER: Final = "secret_"
"""Before the names of a folder's files, as LoadCredential=secret:... in systemd/growd.service has them."""


def secret_path(name: str) -> Path:
    """The file that an option means by `name`.

    A bare name is one of the credentials that systemd hands to its services, where it has handed over one of
    that name; everything else is a path, from the working directory on where it is relative.
    """
    folder = os.environ.get(CREDENTIALS_DIRECTORY)
    if folder and "/" not in name:
        for credential in (Path(folder) / name, Path(folder) / f"{_OF_A_FOLDER}{name}"):
            if credential.exists():
                return credential
    return Path(name)
