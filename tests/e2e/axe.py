"""Accessibility rules, checked by axe in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
WCAG_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
CONTRAST_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""Rules that depend on the theme."""
RUN_AXE = "rules => axe.run({runOnly: rules, resultTypes: ['violations']})"


def violations(page: Page, rules: dict[str, Any]) -> list[str]:
    """Return the broken rules with their elements. Evaluated, because the policy of the page blocks script tags."""
    page.evaluate(AXE)
    violation_list = page.evaluate(RUN_AXE, rules)["violations"]
    return [
        f"{page.url} {rule['id']} {node['target']}: {node['failureSummary']}"
        for rule in violation_list
        for node in rule["nodes"]
    ]
