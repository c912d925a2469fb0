"""The steps of docs/optimise.md on pages, on a server of its example agent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from evals_app.variants.variant_files import read_variant
from tests.browser import PATIENCE_MS, OpenWindow
from tests.e2e.conftest import serve_agents

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/optimise.md").read_text(encoding="utf-8")


@pytest.mark.soak
def test_user_optimises_an_instruction_with_a_cancellation(open_window: OpenWindow, tmp_path: Path):
    with serve_agents(tmp_path, ROOT / "examples" / "optimise") as server:
        page = open_window(server.url, viewport={"width": 1440, "height": 900}).new_page()
        page.goto("/evals/thermo/units/")
        page.get_by_role("link", name="Optimise").click()
        page.get_by_label("Model that writes instructions").fill("no-such-model")
        page.get_by_role("button", name="Optimise", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(
            "There is no class for the optimiser's model 'no-such-model'", timeout=PATIENCE_MS
        )
        page.get_by_label("Model that writes instructions").fill("offline-prompt-writer")
        page.get_by_label("Proposals").fill("3")
        page.get_by_role("button", name="Update bounds").click()
        expect(page.locator("#optimise-form")).to_contain_text("at most 60 attempts and 3 calls")
        page.get_by_role("button", name="Optimise", exact=True).click()
        page.wait_for_url("**/evals/optimisations/**", timeout=PATIENCE_MS)
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Resume").click(timeout=PATIENCE_MS)
        expect(page.get_by_role("button", name="Cancel")).to_be_visible(timeout=PATIENCE_MS)
        page.locator("#candidate-0 summary").click()
        expect(page.locator("#optimisation-progress")).to_contain_text(
            "Chance does not explain the gain.", timeout=PATIENCE_MS
        )
        expect(page.locator("#candidate-0")).to_have_attribute("open", "")
        expect(page.locator("#candidate-0 summary")).to_be_focused()
        best = page.locator("#optimisation-progress tbody tr", has_text="best")
        expect(best).to_have_text(re.compile(r"Candidate 2.*candidate 1.*100 %", re.DOTALL))
        page.reload()
        expect(page.locator(".candidate-instruction[open] .added")).to_contain_text("wind: miles per hour")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as YAML").click()
        path = tmp_path / "best.yaml"
        download.value.save_as(path)
        assert "temperature: Fahrenheit" in read_variant(path).patch["thermo"]["instruction"]


def test_document_names_controls_that_pages_have():
    steps = DOCUMENT[DOCUMENT.index("## Try it on pages") : DOCUMENT.index("## Try it on the command line")]
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    names = re.findall(r"\*\*([A-Z][\w ]+)\*\*", steps)
    assert len(names) > 5
    assert [name for name in names if name not in pages] == []
