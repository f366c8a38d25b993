"""Bundles of other versions, made from a bundle: with the same packages, and with a defect if wanted."""

import hashlib
import json
import zipfile

DEFECT = b"raise RuntimeError('a defect for a test')\n"
_INFORMATION = "version/version.json"


def changed_bundle(bundle, file, version, broken_module=""):
    """Write a bundle of `version` to `file`. The import of `broken_module`, a path in lib/growd, fails."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(file, "w") as new:
        information = json.loads(old.read(_INFORMATION))
        was = information["version"]
        digest = hashlib.sha256(f"{version} {broken_module}".encode()).hexdigest()
        information |= {"version": version, "digest": digest}
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == _INFORMATION:
                content = json.dumps(information).encode()
            elif entry.filename.endswith(f"growd-{was}.dist-info/METADATA"):
                content = content.replace(was.encode(), version.encode())
                entry.filename = entry.filename.replace(was, version)
            elif entry.filename == "version/lib/growd/__init__.py":
                content = content.replace(f'"{was}"'.encode(), f'"{version}"'.encode())
            elif broken_module and entry.filename == f"version/lib/growd/{broken_module}":
                content = DEFECT + content.replace(b"from __future__ import annotations\n", b"")
            entry.compress_type = zipfile.ZIP_STORED
            new.writestr(entry, content)
    return file
