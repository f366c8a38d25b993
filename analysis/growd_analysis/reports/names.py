"""What the page calls interlocks, devices and people, and its sentences: a report uses the same."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from growd.device_kinds import SENSOR_KINDS
from growd.status.notices import with_names
from growd.wiring.files import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd_analysis.reports.language import Language

_TEXT: Final = re.compile(r'^  (\w+): ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)


class Names:
    """The names of what is in a run, in the language of its report. The first use blocks."""

    def __init__(self, run: Mapping[str, Any], language: Language) -> None:
        self._language = language
        configuration = run.get("configuration") or {}
        self._outputs = {str(one.get("name")): one for one in configuration.get("output") or ()}
        self._sensors = {str(one.get("name")): one for one in configuration.get("sensor") or ()}
        self._authors = {"recipe_started": run.get("started_by"), "recipe_ended": run.get("ended_by")}
        self._authors["recipe_stopped"] = self._authors["recipe_ended"]

    @property
    def _texts(self) -> dict[str, str]:
        return _texts(self._language.code)

    def source(self, kind: str, source: str) -> str:
        """What an event of a kind is about."""
        if kind == "interlock":
            return self.interlock(source)
        return source.replace("_", " ") if kind == "recipe" else self.device(source)

    def interlock(self, name: str) -> str:
        """An interlock; those of a variable or an output are named after it."""
        name = name.rpartition("/")[2]
        if f"interlock_{name}" in self._texts:
            return self._texts[f"interlock_{name}"]
        if name.startswith("condition_") and "interlock_condition" in self._texts:
            return self._texts["interlock_condition"].format(name=name[10:].replace("_", " "))
        for key, text in self._texts.items():
            ending = key.removeprefix("interlock")
            if key.startswith("interlock_") and "{name}" in text and name.endswith(ending):
                return text.format(name=self._language.variable(name.removesuffix(ending)))
        return name.replace("_", " ")

    def device(self, name: str) -> str:
        """A sensor after what it measures, an output after what it does."""
        name = name.rpartition("/")[2]
        if variable := self._outputs.get(name, {}).get("variable"):
            return self._language.variable(str(variable))
        sensor = self._sensors.get(name, {})
        kind = SENSOR_KINDS.get(str(sensor.get("kind")))
        variable = sensor.get("variable") or (
            next(filter(None, kind.variables.values()), None) if kind else None
        )
        if variable and "sensor_of" in self._texts:
            return self._texts["sensor_of"].format(name=self._language.variable(str(variable)))
        return self._texts["lamp"] if name == "light" and "lamp" in self._texts else name

    def author(self, event: Mapping[str, Any]) -> str:
        """Who did what an event tells."""
        code = (event.get("details") or {}).get("code", "")
        return self.person(event["by"] or (self._authors.get(code) if event["kind"] == "recipe" else ""))

    def person(self, by: Any) -> str:
        """Somebody by name or address, or at the device itself."""
        is_here = str(by or "").startswith("127.") or by == "::1"
        return self._texts.get("at_device", str(by)) if is_here else str(by or "")

    def event(self, event: Mapping[str, Any]) -> str:
        """An event in words, with its source if the sentence does not name it."""
        fields, said = event.get("details") or {}, self.said(event)
        is_named = f"said_{fields.get('code')}" in self._texts and (
            "device" in fields or "variable" in fields
        )
        return (
            said if is_named else f"{self.source(event['kind'], event['source'])}: {said}".removeprefix(": ")
        )

    def said(self, event: Mapping[str, Any]) -> str:
        """The sentence of an event; in English if the page has no other."""
        fields = event.get("details") or {}
        text = self._texts.get(f"said_{fields.get('code')}")
        if text is None:
            return with_names(event["message"])
        words = {name: self._word(name, value, fields) for name, value in fields.items()}
        return text.format_map(defaultdict(str, words))

    def _word(self, name: str, value: Any, fields: Mapping[str, Any]) -> str:
        match value:
            case {"code": code, "text": text}:
                return self.said({"message": text, "details": {"code": code, **value.get("fields", {})}})
            case list():
                return ", ".join(self._word(name, each, fields) for each in value)
            case bool() | None:
                return ""
            case int() | float() if fields.get("unit") == "s":
                return self._language.duration(value)
            case int() | float():
                unit = self._language.unit(str(fields.get("unit", "")))
                return f"{self._language.typed(round(value, 2))} {unit}".rstrip()
        known = {"interlock": self.interlock, "by": self.person} | dict.fromkeys(
            ("variable", "holds"), self._language.variable
        )
        return known.get(name, self.device if "device" in name or name == "outputs" else str)(str(value))


@cache
def _texts(code: str) -> dict[str, str]:
    """The texts of the page in a language by their keys, none without the page. Blocking."""
    found: dict[str, str] = {}
    for part in ("views", "frame"):
        with suppress(OSError):
            path = shipped_folder("page")[0] / "texts" / code / f"{part}.js"
            found |= {key: json.loads(text) for key, text in _TEXT.findall(path.read_text("utf-8"))}
    return found
