"""Fills in forms of pages like a browser without scripts."""

from __future__ import annotations

from tests.pages.html import Element, parse

SAVE_BUTTONS = ("Save to the file", "Remove from the file")


def fields_of(form: Element) -> dict[str, list[str]]:
    """Return what a browser would send of a form, apart from its buttons."""
    fields: dict[str, list[str]] = {}
    for field in form:
        name = field.attrs.get("name")
        if not name or "disabled" in field.attrs:
            continue
        if field.tag == "input" and (
            field.attrs.get("type") not in ("radio", "checkbox") or "checked" in field.attrs
        ):
            fields.setdefault(name, []).append(_as_sent_by_browsers(field.attrs.get("value", "")))
        elif field.tag == "textarea":
            fields.setdefault(name, []).append(
                _as_sent_by_browsers("".join(map(str, field.children)).removeprefix("\n"))
            )
        elif field.tag == "select":
            options = field.all("option")
            chosen = [option for option in options if "selected" in option.attrs] or options[:1]
            fields[name] = [option.attrs.get("value", "") for option in chosen]
    return fields


def _as_sent_by_browsers(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


class Browser:
    """A person's way through forms: the page that was answered last, and what was typed into it."""

    def __init__(self, web) -> None:
        self.web = web
        self.url = ""
        self.page = Element("")
        self.status = 0

    async def get(self, url: str, status: int = 200) -> Element:
        """Open a page."""
        response = await self.web.get(url)
        return self._shown(url, response, status)

    async def send(
        self, action: str = "", *, status: int = 200, press=("action", None), files=None, **typed
    ) -> Element:
        """Send the page's form by a button, with something else in some fields (`__` stands for a dot)."""
        form = self.page.all("form", css="case-form")[-1]
        fields = fields_of(form)
        if press == ("action", None) and action:
            fields["action"] = [action]
        elif press[1] is not None:
            fields[press[0]] = [press[1]]
        for name, value in typed.items():
            fields[name.replace("__", ".")] = value if isinstance(value, list) else [value]
        url = form.attrs.get("action") or self.url
        response = await self.web.post(url, {**fields, **(files or {})})
        if response.status_code == 302:
            assert status == 302, response.url
            return await self.get(response.url)
        return self._shown(url, response, status)

    async def save(self, *, status: int = 302, **typed) -> Element:
        """Press the button that writes what is shown."""
        marks = [item for item in self.page.all("button") if item.text in SAVE_BUTTONS]
        button = marks[0]
        return await self.send(status=status, press=(button.attrs["name"], button.attrs["value"]), **typed)

    def diff(self) -> tuple[list[str], list[str]]:
        """Return the lines that the page says are taken out and added."""
        lines = [line for line in self.page.all("li") if line.classes & {"added", "removed"}]
        values = {"added": [], "removed": []}
        for line in lines:
            values[next(iter(line.classes & set(values)))].append(line.one("code").text)
        return values["removed"], values["added"]

    def _shown(self, url, response, status: int) -> Element:
        self.url, self.page, self.status = url, parse(response.content), response.status_code
        text = self.page.all("main")[0].text[:500] if self.page.all("main") else ""
        assert response.status_code == status, f"{url}: {response.status_code}: {text}"
        return self.page
