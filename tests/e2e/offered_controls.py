"""The controls that a page offers to a reader or runner although the server would refuse what they send."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.urls import resolve
from playwright.sync_api import Page

from sessions_app.roles import AccessRule, Role
from sessions_app.routes import declared_rules, match_rule

DIALOGS_FOR_READERS = frozenset({"sessions/views/"})
"""Routes of dialogs that show more than their form."""

CONTROLS = """() => {
    const roleOf = (node) => node.closest("[data-needs]")?.dataset.needs ?? "reader";
    const at = (node, method, url, name = "", value = "") =>
        ({ method, url: new URL(url, document.baseURI).href, role: roleOf(node), name, value,
           html: node.outerHTML.replaceAll(/\\s+/g, " ").slice(0, 160) });
    const controls = [];
    for (const form of document.querySelectorAll("form[method=post]:not(#dialog form)"))
        for (const button of document.querySelectorAll("button, input[type=submit]"))
            if (button.form === form && button.type === "submit")
                controls.push(at(button, "POST", button.getAttribute("formaction") ?? form.getAttribute("action") ?? "",
                    button.name, button.value));
    for (const method of ["post", "put", "patch", "delete"])
        for (const node of document.querySelectorAll(`[hx-${method}]:not(form)`))
            controls.push(
                at(node, method.toUpperCase(), node.getAttribute(`hx-${method}`), node.name, node.value));
    for (const link of document.querySelectorAll("a[hx-target='#dialog-content']"))
        controls.push(at(link, "LINK", link.href));
    return controls;
}"""


def find_refused_controls(page: Page) -> list[str]:
    """Return the controls that are shown to a role that may not use them.

    A link to a form in a dialog needs the role of the form. Forms that are pages, or in a dialog, are left out:
    links lead there.
    """
    own = resolve(urlsplit(page.url).path).route
    return [
        f"needs {rule.role.label}, is shown to {control['role']}: {control['html']}"
        for control in page.evaluate(CONTROLS)
        if (rule := _rule_of(control, own)) and Role.of(control["role"]) < rule.role
    ]


def _rule_of(control: dict[str, Any], own_route: str) -> AccessRule | None:
    match = resolve(urlsplit(control["url"]).path)
    if control["method"] == "LINK":
        return None if match.route in DIALOGS_FOR_READERS else declared_rules(match.func).get("POST")
    if match.route == own_route:
        return None
    rule = match_rule(match, control["method"])
    return rule and rule.select_variant({control["name"]: control["value"] or ""})
