"""Every response has the content security policy, and no page needs more than it allows."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.security.routes import addresses

ROOT = Path(__file__).resolve().parents[2]
STANDALONE = {ROOT / "templates/devui/evals/report.html"}
"""Files that a command writes: never served, so they bring their style with them, and no script."""

FRONT_END = "/dev-ui/"
"""The first page of ADK's own front end, whose policy `test_front_end` holds."""

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static").rglob("*.js"))
STYLES = sorted((ROOT / "static").rglob("*.css"))
OUTSIDE = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/)[\w.-]+\.\w+""")


async def test_every_address_sends_the_policy(web, session):
    ours = [address for address in addresses() if address != FRONT_END]
    for address in [*ours, "/nothing/here/", "/static/devui/js/core/app.js", "/api/v1/docs"]:
        answer = await web.get(address, headers={"Accept": "text/html"})
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'self'", address
        assert policy["frame-ancestors"] == "'none'"
        assert policy["base-uri"] == "'none'"
        assert policy["form-action"] == "'self'"
        assert policy["object-src"] == "'none'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"


class Inline(HTMLParser):
    """Collects what the policy forbids: inline scripts, styles and handlers, and addresses outside."""

    DATA_TYPES = ("application/json", "application/ld+json")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._inside = (
            tag
            if tag == "style" or (tag == "script" and attributes.get("type") not in self.DATA_TYPES)
            else ""
        )
        for name, value in attrs:
            if name == "style" or name.startswith(("on", "hx-on")):
                self.found.append(f"<{tag} {name}={value!r}>")
            if value and name in {"src", "href", "action", "data"}:
                if value.strip().lower().startswith(("javascript:", "data:")):
                    self.found.append(f"<{tag} {name}={value!r}>")
                if name == "src" and OUTSIDE.match(value):
                    self.found.append(f"<{tag} {name}={value!r}>")
            if value and "js:" in value and name in {"hx-vals", "hx-headers"}:
                self.found.append(f"<{tag} {name}={value!r}>")

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.found.append(f"<{self._inside}>{data.strip()[:60]}")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def inline_in(text: str) -> list[str]:
    parser = Inline()
    parser.feed(text)
    return parser.found


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_no_template_has_an_inline_script_or_style(template):
    inline_parts = inline_in(template.read_text())
    if template in STANDALONE:
        inline_parts = [inline for inline in inline_parts if not inline.startswith("<style>")]
    assert inline_parts == []


@pytest.mark.parametrize(
    "text",
    [
        "<p style='color:red'>",
        "<script>alert(1)</script>",
        "<style>p {}</style>",
        "<a onclick='x()'>",
        "<a href=' javascript:x()'>",
        "<script src='https://cdn.example/x.js'></script>",
    ],
)
def test_the_search_for_inline_code_finds_it(text):
    assert inline_in(text)


@pytest.mark.parametrize("file", [*SCRIPTS, *STYLES], ids=lambda file: file.relative_to(ROOT).as_posix())
def test_no_script_or_style_reaches_outside(file):
    text = file.read_text()
    assert not OUTSIDE.search(re.sub(r"/\*.*?\*/|^\s*//.*$", "", text, flags=re.S | re.M))
    assert not re.search(r"\beval\(|new Function\(|@import\s+url\(['\"]?http|javascript:", text)


async def test_no_page_that_is_served_holds_inline_code(web, session):
    for address in (address for address in addresses() if address != FRONT_END):
        answer = await web.get(address, headers={"Accept": "text/html"})
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert inline_in(answer.text) == [], address


async def test_pages_and_fragments_are_cached_apart(web):
    answer = await web.get("/sessions/", headers={"Accept": "text/html"})
    assert {"HX-Request", "HX-Target"} <= {name.strip() for name in answer.headers["vary"].split(",")}
