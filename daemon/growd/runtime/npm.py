"""The npm packages of the embedded database and the page, which pip does not install."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def lacks_packages(folder: Path) -> bool:
    """Whether the packages of a folder with a package.json are missing. Blocking."""
    return (folder / "package.json").exists() and not (folder / "node_modules").exists()


def npm_command(folder: Path) -> str:
    """The command that installs them."""
    return f"`npm ci --omit=dev --prefix {folder}` (npm comes with Node 20 or newer)"
