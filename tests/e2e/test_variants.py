"""The steps of docs/variants.md on pages, on the server that its command starts."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from evals_app.variants.variant_files import read_variant
from tests.e2e.conftest import Server, wait_until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/variants.md").read_text(encoding="utf-8")


def open_form_of_failed_case(page: Page) -> None:
    page.goto("/evals/shop/delivery/")
    page.locator("#evalset-runs tbody tr", has_text="failed").get_by_role("link").first.click()
    page.locator("#cases tr.case", has_text="gold_fails_on_purpose").get_by_role("link").first.click()
    page.locator("#attempt").get_by_role("link", name="Try a changed agent").click()
    expect(page.get_by_label("Tools", exact=True)).to_have_value("recorded")


@pytest.mark.soak
@pytest.mark.usefixtures("demo")
def test_user_sees_which_of_two_changed_instructions_repairs_a_failing_case(
    window: BrowserContext, server: Server
):
    runs = f"{server.url}/api/v1/evals/runs?app=shop"
    wait_until(
        lambda: len(httpx.get(runs, trust_env=False).json()["runs"]) >= 2, PATIENCE_S, "the recorded runs"
    )
    page = window.new_page()
    open_form_of_failed_case(page)
    instruction = page.get_by_label("Instruction of shop, variant 1")
    instruction.fill(instruction.input_value().replace("tier: {tier?}", "tier: gold"))
    page.get_by_label("Name", exact=True).fill("gold for all")
    page.get_by_role("button", name="Add a variant").click()
    friendly = page.get_by_label("Instruction of shop, variant 2")
    friendly.fill(f"Be friendly.\n\n{friendly.input_value()}")
    page.get_by_label("Name", exact=True).last.fill("friendly")
    page.get_by_label("Repetitions per case").fill("5")
    page.get_by_role("button", name="Run original and 2 variants").click()
    page.wait_for_url("**/evals/runs/**")
    case_row = page.locator("#variants tbody tr", has_text="gold_fails_on_purpose")
    expect(case_row).to_have_text(re.compile(r"0/5\s+5/5\s+fixed\s+0/5\s+unchanged"))
    expect(page.locator("#variants tbody tr").last).to_contain_text("better overall")

    page.locator("#variants").get_by_role("link", name="gold for all").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as YAML").click()
    path = download.value.path().with_suffix(".yaml")
    download.value.save_as(path)
    assert list(read_variant(path).patch["shop"]) == ["instruction"]
    address = page.url
    page.get_by_role("link", name="Save to file").click()
    expect(page.locator(".file-diff .added")).to_contain_text("tier: gold")
    page.goto(address)
    page.get_by_role("link", name="Change and run again").click()
    expect(page.get_by_label("Instruction of shop, variant 1")).to_have_value(re.compile("tier: gold"))
    expect(page.get_by_label("Tools", exact=True)).to_have_value("recorded")


def test_document_names_the_command_of_the_guide_and_controls_that_pages_have():
    steps = DOCUMENT[DOCUMENT.index("## Try it on pages") : DOCUMENT.index("## Try it on the command line")]
    (command,) = re.findall(r"```sh\n(.*?)```", steps, re.DOTALL)
    assert command in (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    names = [name.replace(" 2 variants", "") for name in re.findall(r"\*\*([A-Z][\w ]+)\*\*", steps)]
    assert names
    assert [name for name in names if name not in pages] == []
