"""Words of the kernel's command line in cmdline.txt, which stays one line.

The kernel of Raspberry Pi OS applies the words in the order of /proc/cmdline, and those of cmdline.txt come
after the firmware's `cgroup_disable=memory`, so `cgroup_enable=memory` wins (raspberrypi/linux issue 6980). A
kernel without that option ignores the word.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def with_words(text: str, added: Iterable[str], removed: Sequence[str]) -> str:
    """The text with the words `added`, and without those that match a pattern in `removed`."""
    old = words_in(text)
    words = [word for word in old if not any(fnmatchcase(word, pattern) for pattern in removed)]
    words += [word for word in added if word not in words]
    return text if words == old else " ".join(words) + _rest(text)


def taken_back(text: str, before: str, after: str) -> str:
    """The text without the change from `before` to `after`; words that someone else changed stay changed."""
    old, new = words_in(before), words_in(after)
    words = [word for word in words_in(text) if word in old or word not in new]
    for place, word in enumerate(old):
        if word not in new and words.count(word) < old.count(word):
            words.insert(place, word)
    if words == old and _rest(text) == _rest(before):
        return before
    return text if words == words_in(text) else " ".join(words) + _rest(text)


def words_in(text: str) -> list[str]:
    """The words of the first line, which is all that counts."""
    return re.findall(r"[^ \t]+", _first_line(text))


def _first_line(text: str) -> str:
    return re.split(r"\r?\n", text, maxsplit=1)[0]


def _rest(text: str) -> str:
    return text[len(_first_line(text)) :]
