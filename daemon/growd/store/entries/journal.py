"""The journals of the environments: entries of growers, on their way from the API to the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.bus.errors import (
    BusyError,
    CapacityError,
    InvalidArgumentsError,
    InvalidValueError,
    NotKeptError,
    UnknownNameError,
)
from growd.bus.fields import past_time
from growd.bus.messages import Quality
from growd.runtime.sentence import Sentence, problem
from growd.runtime.worker import Worker, WorkerError
from growd.store.entries.delivery import EntryDelivery
from growd.store.entries.entry import JournalEntry, is_photo_name
from growd.store.entries.entry_folder import EntryFolder
from growd.store.entries.listing import EntryReader
from growd.store.entries.photos import TYPES
from growd.store.errors import LocalStoreError
from growd.store.points import is_id
from growd.store.recorder import EVENT, JOURNAL_NODE, NOTE
from growd.variables import VARIABLES, similar_variable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
    from pathlib import Path

    from growd.bus import Bus
    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch
    from growd.store.entries.entry_folder import StagedEntry
    from growd.store.points import DataPoint, PointMaker

MOST_WAITING: Final = 2_000  # entries
MOST_BYTES: Final = 1_000_000_000  # of photos that wait or are received
FREE_BYTES: Final = 200_000_000  # of the disk, that photos leave free; of a small disk a twentieth
MOST_UPLOADS: Final = 4  # at the same time
_COUNTS: Final = frozenset({"plants", "leaves"})  # units of what is counted
MOST_READERS: Final = 16  # of photos in the database
MOST_MEASUREMENTS: Final = 50  # of an entry
_log = logging.getLogger(__name__)


class EntryFields(msgspec.Struct, frozen=True):
    """What a client gives for an entry; `time` is UNIX seconds, 0 for now."""

    text: str = ""
    time: float = 0.0
    measurements: Mapping[str, Any] = msgspec.field(default_factory=dict)
    corrects: str = ""


class OpenPhoto(NamedTuple):
    """A photo to send: media type, bytes, and its content."""

    type: str
    size: int
    pieces: AsyncGenerator[bytes]


class GrowersJournal:
    """Keeps entries in the folder `journal` of the data folder until the database has them.

    An entry is on the disk, with measurements and photos, when `keep` returns. Then it is published: its text
    on `<environment>/notes`, its measurements on `<environment>/measured/<variable>`. `reader` lists entries;
    see `EntryReader` for `design` and `ship`. Run `delivery` after `load`.
    """

    def __init__(
        self,
        bus: Bus,
        data: Path,
        couch: Couch,
        maker: PointMaker,
        environments: Collection[str],
        *,
        names: Databases,
        design: str,
        prepare: Callable[[], Awaitable[None]],
        ship: Callable[[], contextlib.AbstractAsyncContextManager[None]],
    ) -> None:
        self.node = bus.node(JOURNAL_NODE)
        self._bus = bus
        self._couch = couch
        self._maker = maker
        self._environments = environments
        self._events = names.events
        self._data = data
        self._folder = EntryFolder(data)
        self._worker = Worker("journal")
        self.delivery = EntryDelivery(
            self._folder, self._worker, couch, bus.clock, names=names, prepare=prepare
        )
        self.reader = EntryReader(couch, names.events, design, self.delivery, ship)
        self._uploads: Counter[str | None] = Counter()
        self._received = 0  # bytes of photos in uploads
        self._readers = 0
        self._load_fault = ""
        self.node.describe("problems", self._problems)

    async def load(self) -> None:
        """Find the entries that wait from before."""
        try:
            found = await self._worker.run(self._folder.load)
        except OSError as error:
            self._load_fault = f"the folder {self._folder.path} can't be read: {error.strerror or error}"
            _log.error("%s", self._load_fault)
            return
        self.delivery.add(*found.values())

    async def close(self) -> None:
        await self._worker.close()

    def check_environment(self, environment: str) -> None:
        """Raises `UnknownNameError`."""
        if environment not in self._environments:
            raise UnknownNameError("environment", environment)

    async def draft(self, environment: str, fields: EntryFields, who: str) -> JournalEntry:
        """The entry that these fields make, without photos. Raises `BusError`, and `CouchError` if the
        database does not have the entry to correct at hand.
        """
        self.check_environment(environment)
        now = self._bus.clock.time()
        time = past_time(fields.time, now)
        if fields.corrects:
            if fields.time or fields.measurements or not fields.text.strip():
                raise InvalidArgumentsError("a correction has a text, and neither time nor measurements")
            time = await self._time_of(environment, fields.corrects)
        measurements = self._measured(environment, fields.measurements, time, who)
        make = self._maker.make
        note = make(environment, NOTE, fields.text, time, category=EVENT, is_manual=True, by=who)
        return JournalEntry(note, now, measurements, corrects=fields.corrects)

    @contextlib.asynccontextmanager
    async def receiving(self, client: str | None) -> AsyncIterator[EntryUpload]:
        """Receive photos of an entry in the body; `keep` saves them. Raises `BusError`."""
        if self._uploads.total() >= MOST_UPLOADS:
            raise BusyError("uploads of photos", MOST_UPLOADS)
        if client is not None and self._uploads[client] >= MOST_UPLOADS // 2:
            raise BusyError(f"uploads of photos of {client}", MOST_UPLOADS // 2)
        self._uploads[client] += 1
        upload = None
        try:
            await self._check_free_space()
            upload = EntryUpload(self, await self.run(self._folder.begin))
            yield upload
        finally:
            self._uploads -= Counter({client: 1})
            if upload is not None:
                self._received -= upload.size
                upload.end()

    async def keep(self, entry: JournalEntry, upload: EntryUpload | None = None) -> JournalEntry:
        """Save an entry with the photos that were received; it is on the disk when this returns.

        Raises `BusError`, and nothing is saved then.
        """
        photos = tuple(upload.photos) if upload is not None else ()
        if not (str(entry.note.value).strip() or entry.measurements or photos):
            raise InvalidArgumentsError("the entry is empty: give a text, a measurement or a photo")
        if entry.corrects and photos:
            raise InvalidArgumentsError("a correction has a text, and no photos")
        if len(self.delivery.waiting) >= MOST_WAITING:
            raise CapacityError("journal entries that wait for the database", MOST_WAITING)
        entry = msgspec.structs.replace(entry, photos=photos)
        staged = upload.staged if upload is not None else await self.run(self._folder.begin)
        try:
            await self.run(staged.commit, entry)
        except BaseException:
            self.end(staged)
            raise
        self.delivery.add(entry)
        self._publish(entry)
        return entry

    @contextlib.asynccontextmanager
    async def photo(self, entry_id: str, name: str) -> AsyncIterator[OpenPhoto]:
        """A photo, from the disk or from the database. Raises `BusError` and `CouchError`."""
        unknown = UnknownNameError("photo", f"{entry_id}/{name}")
        if not (is_id(entry_id) and is_photo_name(name)):
            raise unknown
        waiting = await self._waiting_photo(entry_id, name)
        if waiting is not None:
            async with contextlib.aclosing(waiting.pieces):
                yield waiting
            return
        async with self._reading():
            document = await self._couch.get(self._events, entry_id)
            about = ((document or {}).get("_attachments") or {}).get(name)
            if document is None or about is None or about["content_type"] not in TYPES:
                raise unknown
            stored = self._couch.attachment(self._events, entry_id, document["_rev"], name)
            async with contextlib.aclosing(stored) as pieces:
                yield OpenPhoto(about["content_type"], about["length"], pieces)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the thread of the folder. Raises `NotKeptError` for an OSError."""
        try:
            return await self._worker.run(function, *arguments)
        except OSError as error:
            reason = error.strerror or error
            raise NotKeptError(f"the entry can't be written to the disk: {reason}") from error
        except WorkerError as error:
            raise NotKeptError(f"the entry can't be written to the disk: {error}") from error

    def end(self, staged: StagedEntry) -> None:
        """Delete what is left of an upload, without waiting for it; the next start does so at the latest."""
        with contextlib.suppress(WorkerError):
            self._worker.submit(staged.discard)

    def reserve(self, size: int) -> None:
        """Count bytes of a photo that is received. Raises `CapacityError`."""
        if self.delivery.waiting_bytes + self._received + size > MOST_BYTES:
            raise CapacityError("bytes of photos that wait for the database", MOST_BYTES)
        self._received += size

    def rejected(self) -> list[dict[str, Any]]:
        """Entries that the database refused, wholly or in part, in the form of rejected points."""
        waiting = self.delivery.waiting
        return [
            {"point": waiting[name].document(), "reason": refusal.reason, "rejected_at": refusal.at}
            for name, refusal in self.delivery.refused.items()
            if name in waiting
        ]

    async def _waiting_photo(self, entry_id: str, name: str) -> OpenPhoto | None:
        """A photo on the disk; None if the database has it by now."""
        entry = self.delivery.waiting.get(entry_id)
        photo = entry.photo(name) if entry is not None else None
        if entry is None or photo is None:
            return None
        pieces = self.delivery.pieces(entry, photo)
        try:
            first = await anext(pieces, b"")
        except LocalStoreError:
            return None
        return OpenPhoto(photo.type, photo.size, _following(first, pieces))

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        if self._readers >= MOST_READERS:
            raise BusyError("requests for photos", MOST_READERS)
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    async def _check_free_space(self) -> None:
        usage = await asyncio.to_thread(shutil.disk_usage, self._data)
        if usage.free < min(FREE_BYTES, usage.total // 20):
            left = f"{usage.free // 1_000_000} MB"
            raise NotKeptError(f"the disk has {left} left, too little for photos; a text can still be saved")

    async def _time_of(self, environment: str, entry_id: str) -> float:
        """The time of the entry that is corrected."""
        waiting = self.delivery.waiting.get(entry_id)
        found: dict[str, Any] | None = None
        if waiting is not None:
            found = waiting.document()
        elif is_id(entry_id):
            found = await self._couch.get(self._events, entry_id)
        if found is None or found.get("environment") != environment or found.get("variable") != NOTE:
            raise InvalidValueError("corrects", f"the id of an entry of {environment}", entry_id)
        if found.get("corrects"):
            raise InvalidValueError("corrects", f"the id of the first version, {found['corrects']}", entry_id)
        return float(found["timestamp"])

    def _measured(
        self, environment: str, given: Mapping[str, Any], time: float, who: str
    ) -> tuple[DataPoint, ...]:
        if len(given) > MOST_MEASUREMENTS:
            raise InvalidValueError("measurements", f"at most {MOST_MEASUREMENTS}", len(given))
        return tuple(self._point(environment, name, value, time, who) for name, value in given.items())

    def _point(self, environment: str, name: str, value: Any, time: float, who: str) -> DataPoint:
        variable = VARIABLES.get(name)
        if variable is None or variable.is_output:
            alike = similar_variable(name) if variable is None else ""
            hint = f" such as {alike}" if alike else ""
            raise InvalidValueError("measurements", f"a variable that is measured by hand{hint}", name)
        topic = self._bus.topics.get(f"{environment}/measured/{name}")
        if not topic.is_open:
            raise InvalidValueError("measurements", "a variable that no sensor measures", name)
        ranged = replace(topic.type.fields[0], name=f"measurements: {name}", takes_flags=False)
        number = round(checked := ranged.check(value), variable.precision)
        if variable.unit in _COUNTS and number != checked:
            raise InvalidValueError(ranged.name, "a whole number", value)
        return self._maker.make(environment, name, number, time, is_manual=True, by=who)

    def _publish(self, entry: JournalEntry) -> None:
        """The recorder stores nothing of it, since the entry is on the disk."""
        environment, at = entry.note.environment, entry.note.timestamp
        messages = {f"{environment}/measured/{point.variable}": point.value for point in entry.measurements}
        for name, value in (messages | {f"{environment}/notes": entry.note.value}).items():
            topic = self.node.publisher(name).topic
            topic.deliver(value, at, Quality.OK, JOURNAL_NODE, is_past=at < entry.written)

    def _problems(self) -> list[dict[str, Any]]:
        texts = [*self._folder.unreadable, *filter(None, [self._load_fault])]
        found = [problem(Sentence(each, "journal_unreadable"), name=each, is_failure=True) for each in texts]
        if reason := str(self.delivery.fault):
            text, fields = f"journal entries wait for the database: {reason}", {"reason": reason}
            found.append({"text": text, "code": "journal_waits", "fields": fields})
        return found


class EntryUpload:
    """The photos of an entry while they are received."""

    def __init__(self, journal: GrowersJournal, staged: StagedEntry) -> None:
        self.staged = staged
        self.size = 0
        """Bytes that were received."""
        self._journal = journal

    @property
    def photos(self) -> list[Any]:
        """The photos that were received wholly."""
        return self.staged.photos

    async def write(self, piece: bytes) -> None:
        """Append to the photo that is being received. Raises `BusError`."""
        self._journal.reserve(len(piece))
        self.size += len(piece)
        await self._journal.run(self.staged.write, piece)

    async def finish_photo(self) -> None:
        """The photo is complete. Raises `BusError` and `PhotoError`."""
        await self._journal.run(self.staged.finish_photo)

    def end(self) -> None:
        """Delete what was received, unless it was kept."""
        self._journal.end(self.staged)


async def _following(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
