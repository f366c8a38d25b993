"""axe-core, which finds what breaks the rules of accessibility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support.checkout import ROOT

if TYPE_CHECKING:
    from playwright.async_api import Page

AXE: Final = ROOT / "page/node_modules/axe-core/axe.min.js"


async def violations(page: Page) -> list[str]:
    """What axe-core finds: rule, element, and what to do."""
    await page.evaluate(AXE.read_text())
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
