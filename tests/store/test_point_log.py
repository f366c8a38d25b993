"""The log of new points: acknowledged points that were not released are recovered, in order."""

import errno
import itertools
import os
import random
import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from growd.store import point_log
from growd.store.block_file import BlockFile
from growd.store.encoding import point_to_json
from growd.store.errors import LocalStoreError, LogFullError
from growd.store.point_log import PointLog, open_log
from growd.store.points import PointMaker

MAKER = PointMaker("0123456789ab")
NUMBERS = itertools.count()


def points(number, text=""):
    return [MAKER.make("environment_1", "v", f"{next(NUMBERS)}{text}", 1.0) for _ in range(number)]


def texts(made):
    return [point_to_json(point) for point in made]


class FakeBlocks:
    """Blocks in memory; a write may fail before, during or after it."""

    def __init__(self, blocks, block):
        self.size = blocks * block
        self.block = block
        self.content = bytearray(self.size)
        self.fails_after = None  # blocks that are written before the error
        self.is_closed = False
        self.writes = []

    def read(self):
        return bytes(self.content)

    def write(self, number, data):
        data = data + bytes(-len(data) % self.block)
        start = number * self.block
        assert start + len(data) <= self.size
        self.writes.append((number, len(data) // self.block))
        if self.fails_after is not None:
            data = data[: self.fails_after * self.block]
            self.content[start : start + len(data)] = data
            raise OSError(errno.EIO, "Input/output error")
        self.content[start : start + len(data)] = data

    def close(self):
        self.is_closed = True


class LogMachine(RuleBasedStateMachine):
    """A log and a model: points that must be there, and those that may be after a failed write."""

    @initialize(blocks=st.integers(4, 12), block=st.sampled_from([512, 4096]))
    def make(self, blocks, block):
        self.blocks = FakeBlocks(blocks, block)
        self.log = PointLog(self.blocks)
        self.kept = {}
        self.uncertain = set()
        self.written = 0  # released by the file up to here
        self.released = 0

    @rule(number=st.integers(0, 3), text=st.sampled_from(["", "x" * 300, "x" * 900, "\u2028\r é", "\ud800"]))
    def append(self, number, text):
        made = points(number, text)
        try:
            first = self.log.append(texts(made), self.released)
        except LogFullError:
            return
        assert first == self.log.last - number + 1
        self.kept |= dict(enumerate(made, first))
        self.written = self.released

    @rule(share=st.floats(0, 1))
    def release(self, share):
        self.released += int((self.log.last - self.released) * share)

    @rule(number=st.integers(1, 3), blocks=st.integers(0, 4), text=st.sampled_from(["", "x" * 900]))
    def fail(self, number, blocks, text):
        """A write fails."""
        made = points(number, text)
        self.blocks.fails_after = blocks
        last = self.log.last
        try:
            with pytest.raises((OSError, LogFullError)):
                self.log.append(texts(made), self.released)
        finally:
            self.blocks.fails_after = None
        assert self.log.last == last
        self.uncertain |= {point.id for point in made}

    @rule()
    def move_elsewhere(self):
        """All points move elsewhere, as when the log is full: the next ones must have room."""
        made = points(1)
        self.released = self.log.last
        first = self.log.append(texts(made), None)
        self.written = self.released
        self.kept |= dict(enumerate(made, first))

    @rule()
    def cut(self):
        """A power cut: points that were not released are recovered."""
        self.reopen_and_check()

    @rule()
    def close(self):
        try:
            self.log.close(self.released)
            self.written = self.released
        except LogFullError:
            pass
        assert self.blocks.is_closed
        self.reopen_and_check()

    @precondition(lambda self: self.kept)
    @rule(blocks=st.integers(0, 3), number=st.integers(1, 3))
    def tear(self, blocks, number):
        """A power cut during a write."""
        self.fail(number, blocks, "x" * 900)
        self.reopen_and_check()

    def reopen_and_check(self):
        self.log = PointLog(self.blocks)
        assert self.log.damage == ""
        wanted = [point for number, point in self.kept.items() if number > self.released]
        found = list(self.log.recovered.values())
        assert list(self.log.recovered) == sorted(self.log.recovered)
        assert min(self.log.recovered, default=self.log.last + 1) > self.written
        certain = [point for point in found if point.id not in self.uncertain]
        assert [point for point in certain if point in wanted] == wanted
        assert set(certain) <= set(self.kept.values())
        # recovered points are certain from now on
        self.kept = dict(self.log.recovered)
        self.uncertain -= {point.id for point in found}
        self.released = min(self.released, self.log.last)

    @invariant()
    def no_write_destroys_needed_points(self):
        if not hasattr(self, "log"):
            return
        again = PointLog(self.blocks)
        wanted = [point for number, point in self.kept.items() if number > self.released]
        assert [point for point in again.recovered.values() if point in wanted] == wanted
        assert again.damage == ""


LogMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
test_a_log_against_its_model = LogMachine.TestCase


def test_a_last_frame_torn_at_any_sector_loses_nothing_acknowledged():
    blocks = FakeBlocks(64, 4096)
    log = PointLog(blocks)
    made = points(20)
    for point in made:
        log.append(texts([point]), 5)
    before = bytes(blocks.content)
    log.append(texts(points(8, "x" * 1500)), 7)
    after = bytes(blocks.content)
    place, length = blocks.writes[-1]
    assert length > 2
    used = len(after[: (place + length) * 4096].rstrip(b"\0"))
    for end in range(place * 4096, used, 512):
        blocks.content[:] = before[: place * 4096] + after[place * 4096 : end] + before[end:]
        again = PointLog(blocks)
        assert again.damage == ""
        assert again.recovered == dict(enumerate(made[5:], 6))
        (new,) = points(1)
        assert again.append(texts([new]), 20) == 21
        assert PointLog(blocks).recovered == {21: new}


def test_a_damaged_block_loses_only_its_points_and_is_reported():
    blocks = FakeBlocks(32, 512)
    log = PointLog(blocks)
    made = points(60)
    for start in range(0, 60, 3):
        log.append(texts(made[start : start + 3]), 9)
    whole = bytes(blocks.content)
    places = [place for place, _ in blocks.writes]
    for first, place in zip(range(0, 57, 3), places[:-1], strict=True):
        blocks.content[:] = whole
        blocks.content[place * 512 : (place + 1) * 512] = random.Random(place).randbytes(512)
        again = PointLog(blocks)
        left = [point for point in made[9:] if point not in made[first : first + 3]]
        assert list(again.recovered.values()) == left
        assert again.damage == ("3 of its points can't be read" if first >= 9 else "")


def test_a_line_that_is_no_point_takes_no_other_with_it():
    blocks = FakeBlocks(8, 512)
    made = points(3)
    before, _, after = texts(made)
    PointLog(blocks).append([before, '["of", "another", "format"]', after], 0)
    again = PointLog(blocks)
    assert again.recovered == {1: made[0], 3: made[2]}
    assert again.damage == "1 of its points can't be read"


def test_any_changed_bit_is_detected():
    blocks = FakeBlocks(8, 512)
    log = PointLog(blocks)
    made = points(3)
    for point in made:
        log.append(texts([point]), 0)
    whole = bytes(blocks.content)
    used = whole.index(b"\0" * 64, 512 + 64)  # of the second frame
    for bit in range(512 * 8, used * 8):
        blocks.content[:] = whole
        blocks.content[bit // 8] ^= 1 << bit % 8
        again = PointLog(blocks)
        assert again.recovered == {1: made[0], 3: made[2]}
        assert again.damage == "1 of its points can't be read"


def test_a_failed_write_that_reached_the_disk_is_not_the_newest_frame():
    """The write fails, other points go to the start of the file, and then the power is cut."""
    blocks = FakeBlocks(16, 512)
    log = PointLog(blocks)
    for released in range(14):
        log.append(texts(points(1)), released)
    blocks.fails_after = 2
    with pytest.raises(OSError, match="Input/output error"):
        log.append(texts(points(1, "x" * 600)), None)
    blocks.fails_after = None
    made = points(2, "x" * 600)
    log.append(texts(made), None)
    assert blocks.writes[-1][0] == 0
    made += points(1)
    PointLog(blocks).append(texts(made[2:]), 14)
    assert list(PointLog(blocks).recovered.values()) == made


def test_a_torn_frame_over_released_points_is_no_damage():
    blocks = FakeBlocks(16, 512)
    log = PointLog(blocks)
    for _ in range(15):
        log.append(texts(points(1)), 0)
    blocks.fails_after = 1
    with pytest.raises(OSError, match="Input/output error"):
        log.append(texts(points(1, "x" * 1200)), None)
    assert PointLog(blocks).damage == ""


# In a file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "points.log"


def recovered(path, size):
    file = BlockFile.open(path, size)
    log = PointLog(file)
    assert log.damage == ""
    file.close()
    return list(log.recovered.values())


def filled(path, size, number):
    file = BlockFile.open(path, size)
    log = PointLog(file)
    made = points(number)
    for point in made:
        log.append(texts([point]), 0)
    file.close()
    return made


def test_the_file_has_its_full_size_from_the_start(path):
    BlockFile.open(path, 100 * 4096).close()
    assert path.read_bytes() == bytes(100 * 4096)
    assert path.stat().st_blocks * 512 >= 100 * 4096
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [8192, 8192 - 1000])
def test_a_file_of_another_size_is_read(path, cut):
    """Another growd had a larger or smaller log, or the disk was full when it was made."""
    made = filled(path, 8192, 5)
    assert recovered(path, 65536) == made
    assert path.stat().st_size == 65536
    assert recovered(path, 4096) == made
    for size, asked in ((cut, 4 * 4096), (4 * 4096 + 100, 4096)):
        os.truncate(path, size)
        assert recovered(path, asked) == made


@pytest.mark.parametrize("refused", ["open", "read"])
def test_a_file_system_without_direct_writes_works(path, monkeypatch, refused):
    usual_open, usual_read = os.open, os.preadv

    def without_direct(name, flags, *rest):
        if flags & os.O_DIRECT and refused == "open":
            raise OSError(errno.EINVAL, "Invalid argument")
        descriptor = usual_open(name, flags, *rest)
        opened[descriptor] = flags
        return descriptor

    def read(descriptor, *rest):
        if opened[descriptor] & os.O_DIRECT and refused == "read":
            raise OSError(errno.EINVAL, "Invalid argument")
        return usual_read(descriptor, *rest)

    opened = {}
    monkeypatch.setattr(os, "open", without_direct)
    monkeypatch.setattr(os, "preadv", read)
    made = filled(path, 8192, 5)
    assert recovered(path, 8192) == made
    assert opened[max(opened)] & os.O_DSYNC  # writes are synced in both cases


def test_the_memory_of_a_read_is_free_afterwards(path):
    size = 16 * 1024 * 1024
    file, before = BlockFile.open(path, size), shared_memory()
    assert len(file.read()) == size
    file.write(0, b"a frame")
    assert shared_memory() - before < size // 2
    file.close()


def shared_memory():
    """Resident bytes of this process that are shared, as anonymous mappings of `mmap` are."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("Pss_Shmem:"))
    return int(kilobytes) * 1024


def test_a_card_with_large_sectors_gets_whole_sectors(path, monkeypatch):
    usual = os.preadv
    monkeypatch.setattr(
        os, "preadv", lambda d, buffers, at: 0 if len(buffers[0]) == 512 else usual(d, buffers, at)
    )
    file = BlockFile.open(path, 16 * 4096)
    assert file.block in {4096, 512}  # 512 where the file system knows no direct writes
    written = []
    usual_write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda d, b, at: written.append((len(b), at)) or usual_write(d, b, at))
    log = PointLog(file)
    made = points(3)
    for point in made:
        log.append(texts([point]), 0)
    log.close(0)
    assert written == [(file.block, number * file.block) for number in range(3)]
    assert recovered(path, 16 * 4096) == made


def test_a_write_of_half_a_frame_is_an_error(path, monkeypatch, said):
    file = BlockFile.open(path, 8192)
    log = PointLog(file)
    monkeypatch.setattr(os, "pwrite", lambda *_: 512)
    with said.raises(OSError):
        log.append(texts(points(1, "x" * 1000)), 0)
    file.close()
    assert log.last == 0


def test_short_writes_are_continued_when_the_file_is_made(path, monkeypatch):
    usual = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda d, b, at: usual(d, b[:5000], at))
    BlockFile.open(path, 40960).close()
    assert path.read_bytes() == bytes(40960)


def joined_pairs(text):
    """Join adjacent halves of surrogate pairs, as JSON does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


ODD = st.characters(codec=None) | st.sampled_from('\u2028\u2029\x85\r\n\0\ud800\udfff {"]')
VALUES = st.one_of(
    st.integers(-(10**400), 10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(ODD, max_size=30).map(joined_pairs),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(VALUES, st.text(min_size=1, max_size=5), st.booleans()), max_size=8))
def test_points_are_read_as_they_were_written(values):
    made = [MAKER.make("é", name, value, 1e9, is_manual=manual) for value, name, manual in values]
    blocks = FakeBlocks(64, 512)
    PointLog(blocks).append(texts(made), 0)
    found = list(PointLog(blocks).recovered.values())
    assert found == made
    assert [type(point.value) for point in found] == [type(point.value) for point in made]


def test_a_log_from_a_disk_with_smaller_sectors_is_continued():
    disk = FakeBlocks(16, 4096)
    made = []
    for block, number in ((512, 20), (4096, 3)):
        disk.block = block
        log = PointLog(disk)
        assert (log.damage, list(log.recovered.values())) == ("", made)
        for one in points(number):
            log.append(texts([one]), 0)
            made.append(one)
    assert list(PointLog(disk).recovered.values()) == made


def test_the_note_is_that_of_the_newest_frame():
    blocks = FakeBlocks(6, 512)
    log = PointLog(blocks)
    longest = "n" * point_log.MOST_NOTE
    for number in range(20):  # several rounds
        note = longest if number % 2 else f"note {number}"
        log.append(texts(points(1)), None, note)
        assert (PointLog(blocks).note, len(PointLog(blocks).recovered)) == (note, 1)
    log.append(texts(points(1, "x" * 600)), 20, "nearly full")
    with pytest.raises(LogFullError):
        log.append(texts(points(3, "x" * 600)), 20, longest)
    assert PointLog(blocks).note == log.note != longest
    log.close(None, longest)
    again = PointLog(blocks)
    assert (again.note, again.recovered) == (longest, {})
    written = len(blocks.writes)
    again.close(None, longest)
    assert len(blocks.writes) == written  # nothing is new


def test_a_log_of_a_newer_growd_is_not_touched(tmp_path, said):
    path = tmp_path / "points.log"
    header = struct.pack("<4sIQQQ", b"gLO2", 2, 1, 1, 0)
    frame = header + struct.pack("<I", crc32(b"{}", crc32(header))) + b"{}"
    path.write_bytes(frame.ljust(1024 * 1024, b"\0"))
    before = path.read_bytes()
    with said.raises(LocalStoreError):
        open_log(path)
    assert path.read_bytes() == before
