"""JSON Schema (draft 2020-12) of each recipe format, for editors and for whoever writes recipes elsewhere.

They say what shape a recipe has. What they let pass may still be refused: `growd.recipes.interpreter.check`
knows more, such as the range of a variable or whether spans overlap. What they refuse, that refuses.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a format. Blocking; raises `FileNotFoundError` where there is no such format."""
    text = resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
