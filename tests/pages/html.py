"""Strict HTML parser for tests. Mismatched tags raise an error, where a browser would guess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)


@dataclass(eq=False)
class Element:
    """An element: its tag, its attributes, its children (elements and text)."""

    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Yield the elements inside, in document order."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    @property
    def text(self) -> str:
        """The text inside, with blanks run together."""
        return " ".join("".join(self._strings()).split())

    @property
    def classes(self) -> set[str]:
        """The classes."""
        return set(self.attrs.get("class", "").split())

    def all(self, tag: str = "", css: str = "", **attrs: str) -> list[Element]:
        """Return the elements inside with this tag, class and attributes (`data_key` for `data-key`)."""
        expected = {name.rstrip("_").replace("_", "-"): value for name, value in attrs.items()}
        return [
            element
            for element in self
            if (not tag or element.tag == tag)
            and (not css or css in element.classes)
            and all(element.attrs.get(name) == value for name, value in expected.items())
        ]

    def one(self, tag: str = "", css: str = "", **attrs: str) -> Element:
        """Return the only such element."""
        elements = self.all(tag, css, **attrs)
        assert len(elements) == 1, f"{len(elements)} elements <{tag}> .{css} {attrs}"
        return elements[0]

    def _strings(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, Element):
                yield from child._strings()
            else:
                yield child


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack = [Element("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        assert len(element.attrs) == len(attrs), f"<{tag}> has an attribute twice: {attrs}"
        self.stack[-1].children.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_endtag(self, tag: str) -> None:
        opened = self.stack.pop()
        assert opened.tag == tag, f"</{tag}> closes <{opened.tag} {opened.attrs}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def parse(html: str | bytes) -> Element:
    """Return HTML as a tree."""
    builder = _Builder()
    builder.feed(html.decode() if isinstance(html, bytes) else html)
    builder.close()
    assert len(builder.stack) == 1, f"not closed: {[element.tag for element in builder.stack[1:]]}"
    return builder.stack[0]


def table(page: Element) -> list[dict[str, str]]:
    """Return the rows of the only table as {column: text}."""
    table_element = page.one("table")
    columns = [cell.text for cell in table_element.one("thead").all("th")]
    body = table_element.one("tbody")
    return [
        dict(zip(columns, [cell.text for cell in row if cell.tag in {"th", "td"}], strict=True))
        for row in body.all("tr")
    ]
