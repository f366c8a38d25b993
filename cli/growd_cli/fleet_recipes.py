"""`growd fleet publish`, `recipes` and `withdraw`: recipes for the devices of a cloud."""

from __future__ import annotations

import re
import secrets
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.bus.errors import counted
from growd.config.base import NAME
from growd.recipes.findings import errors
from growd.recipes.interpreter import check
from growd.store.couch_answers import checked
from growd.store.errors import CouchConflictError, CouchRefusedError
from growd_cli.fleet_cloud import cloud_options
from growd_cli.names import did_you_mean
from growd_cli.options import refuse
from growd_cli.output import echo_lines
from growd_cli.recipe import echo_findings, read_file
from growd_cli.terminal import echo_text

FIRST_REVISION: Final = 1_000
"""Of a recipe in the cloud. If a device has a recipe of the same id, CouchDB shows the greater revision."""

if TYPE_CHECKING:
    from growd.store.couch import Document
    from growd_cli.fleet_cloud import CloudPlace, FleetCloud
    from growd_cloud.devices import FleetRow


@click.command()
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False)
)
@click.option("--to", "devices", multiple=True, metavar="DEVICE", help="For this device, by id or name.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="For the devices of this group.")
@cloud_options
def publish(
    *, place: CloudPlace, files: tuple[Path, ...], devices: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    """Check recipes and publish them, to all devices or to those of --to and --group (both repeatable).

    The id is the document's `_id`, or else the name of the file. A recipe of the same id is replaced, with
    the devices it is for. Nothing is published if a recipe has an error. A device copies a recipe within
    seconds while it is connected.

    Exit status: 0 if all are published; 1 if a recipe has an error, a device is unknown or revoked, a group
    is empty, or CouchDB refuses; 2 for a usage error; 3 if CouchDB does not answer; 4 if another login is
    needed.
    """
    recipes = _checked(files)
    if wrong := [each for each in groups if not re.fullmatch(NAME, each)]:
        raise click.BadParameter(f"{wrong[0]} is no name of a group", param_hint="--group")
    place.run(lambda cloud: _publish(cloud, recipes, devices, groups))


@click.command()
@cloud_options
def recipes(*, place: CloudPlace) -> None:
    """List the published recipes with their revisions, and for whom they are.

    Exit status: as of `growd fleet publish`.
    """
    echo_lines(place.run(_listed) or ["no recipe is published"])


@click.command()
@click.argument("recipes", metavar="RECIPE...", nargs=-1, required=True)
@cloud_options
def withdraw(*, place: CloudPlace, recipes: tuple[str, ...]) -> None:
    """Delete published recipes, by id, on all devices.

    A run that uses one goes on with its own copy. Recipes that were made on a device stay.

    Exit status: as of `growd fleet publish`.
    """
    place.run(lambda cloud: _withdraw(cloud, recipes))


def _checked(files: tuple[Path, ...]) -> list[Document]:
    """The recipes of files with their ids. Ends the command if one has errors."""
    recipes, faults = [], []
    for file in files:
        document, repeated = read_file(file)
        findings = repeated + check(document)
        if findings:
            echo_text(f"{file}:", err=True)
            echo_findings(findings, err=True)
        if wrong := errors(findings):
            faults.append(f"{file} has {counted(len(wrong), 'error')}")
        recipes.append({"_id": file.stem, **{key: each for key, each in document.items() if key != "_rev"}})
    if faults:
        refuse(f"nothing is published: {', '.join(faults)}")
    return recipes


async def _publish(
    cloud: FleetCloud, recipes: list[Document], devices: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    """Say of each recipe that it is published as soon as it is: a later one may fail."""
    rows = await cloud.rows()
    chosen = await cloud.found(devices)
    if gone := [row for row in chosen if row.state == "revoked"]:
        refuse(f"{gone[0].device} ({gone[0].name}) is revoked, and gets no recipes")
    known = sorted({row.group for row in rows if row.state != "revoked"} - {""})
    for name in groups:
        if name not in known:
            others = did_you_mean(name, known) or f"; groups with devices: {', '.join(known) or 'none'}"
            refuse(f"nothing is published: no device is in the group {name}{others}")
    wanted = [row.device for row in chosen] + [f"group:{name}" for name in groups]
    for recipe in recipes:
        if wanted:
            recipe["growd_for"] = wanted
        number = await _written(cloud, recipe)
        echo_text(f"published {recipe['_id']}, revision {number}, {_audience(recipe, rows)}")


async def _listed(cloud: FleetCloud) -> list[str]:
    rows = await cloud.rows()
    documents = [row["doc"] for row in await cloud.couch.all_docs(cloud.names.recipes, include_docs=True)]
    return [
        f"{each['_id']}, revision {each['_rev'].partition('-')[0]}, {_audience(each, rows)}"
        for each in documents
        if not each["_id"].startswith("_design/")
    ]


async def _written(cloud: FleetCloud, recipe: Document) -> str:
    """Write a recipe as its next revision; the number of it."""
    database, recipe_id = cloud.names.recipes, recipe["_id"]
    (found,) = await cloud.couch.all_docs(database, keys=[recipe_id])
    if "value" not in found:
        await _write_first(cloud, recipe)
        return str(FIRST_REVISION)
    is_deleted = found["value"].get("deleted", False)
    revision = {} if is_deleted else {"_rev": found["value"]["rev"]}
    stored = await cloud.couch.put(database, {**recipe, **revision})
    if stored is None:
        raise CouchConflictError(recipe_id)
    return stored.partition("-")[0]


async def _write_first(cloud: FleetCloud, recipe: Document) -> None:
    """Begin with `FIRST_REVISION`, as a replication would write it."""
    digest = secrets.token_hex(16)
    document = {
        **recipe,
        "_rev": f"{FIRST_REVISION}-{digest}",
        "_revisions": {"start": FIRST_REVISION, "ids": [digest]},
    }
    body = msgspec.json.encode({"docs": [document], "new_edits": False})
    status, answer = await cloud.couch.send("POST", (cloud.names.recipes, "_bulk_docs"), body)
    if refused := checked("POST /_bulk_docs", status, answer):
        error, reason = refused[0].get("error", ""), refused[0].get("reason", "")
        sentence = f"the database refused {recipe['_id']}: {reason}"
        raise CouchRefusedError(sentence, HTTPStatus.FORBIDDEN, error, reason)


def _audience(recipe: dict[str, Any], rows: list[FleetRow]) -> str:
    """For whom a recipe is, in words."""
    wanted = recipe.get("growd_for")
    active = [row for row in rows if row.state != "revoked"]
    if wanted is None:
        return f"for all: {counted(len(active), 'device')}"
    some = [row for row in active if row.device in wanted or f"group:{row.group}" in wanted]
    return f"for {', '.join(wanted)}: {counted(len(some), 'device')}"


async def _withdraw(cloud: FleetCloud, recipes: tuple[str, ...]) -> None:
    present = await cloud.couch.documents(cloud.names.recipes, recipes)
    for name in recipes:
        if name not in present:
            known = [row["id"] for row in await cloud.couch.all_docs(cloud.names.recipes)]
            refuse(f"there is no recipe {name}{did_you_mean(name, known)}")
    for name in recipes:
        deletion = {"_id": name, "_rev": present[name]["_rev"], "_deleted": True}
        if await cloud.couch.put(cloud.names.recipes, deletion) is None:
            raise CouchConflictError(name)
        echo_text(f"withdrew {name}")
