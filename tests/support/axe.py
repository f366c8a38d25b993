"""axe-core, which finds what breaks the rules of accessibility."""

from support.checkout import ROOT

AXE = ROOT / "page/node_modules/axe-core/axe.min.js"


async def violations(page):
    """What axe-core finds: rule, element, and what to do."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
