"""Tags of shared controls (links, buttons, dialogs, filters): `{% load controls %}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.forms.utils import flatatt
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from sessions_app.presentation import visible_text
from sessions_app.templatetags import devui

register = template.Library()

DIALOG = "#dialog-content"
"""Element in which small pages open as a dialog."""

NUMBER = SafeString("<span data-number></span>")


@register.simple_tag(takes_context=True)
def find_page_app(context: template.Context) -> str:
    """`{% find_page_app as about %}`: the app of the URL or of the object shown; empty: all apps."""
    page_app = getattr(context.get("shell"), "app", "") or context.get("app_name")
    object_apps = (getattr(context.get(name), "app_name", "") for name in ("session", "run"))
    return str(page_app or next(filter(None, object_apps), ""))


@register.simple_tag
def address(route: str, *parts: Any, **query: Any) -> str:
    """`{% address "session-fork" session.pk seq=7 as url %}`: the URL of a route with a query string.

    An empty route returns only the query string. Parameters that are None are left out.
    """
    path = reverse(route, args=parts) if route else ""
    query_string = urlencode({name: value for name, value in query.items() if value is not None})
    return f"{path}?{query_string}" if query_string or not path else path


@register.simple_tag
def in_dialog(url: str) -> SafeString:
    """`<a {% in_dialog url %}>`: a link to a page, which opens in a dialog when scripts run."""
    return format_html('href="{0}" hx-get="{0}" hx-target="{1}"', url, DIALOG)


@register.simple_tag
def polling(url: str, target: str = "", *, at_once: bool = False, **parameters: str) -> SafeString:
    """`<div {% polling url %}>`: an element that is loaded again every two seconds while the page is visible.

    It replaces itself, or the content of the element that the selector `target` names; with `at_once` also when it
    appears. Other arguments are parameters of the address.
    """
    query = f"?{urlencode(parameters)}" if parameters else ""
    swap = (
        format_html('hx-target="{}"', target)
        if target
        else SafeString('hx-target="this" hx-swap="outerHTML"')
    )
    trigger = "load, poll from:body" if at_once else "poll from:body"
    return format_html('hx-get="{}" hx-trigger="{}" {} data-quiet', url + query, trigger, swap)


@register.simple_tag
def icon_link(icon: str, label: str, url: str, *, dialog: bool = False, **how: Any) -> SafeString:
    """`{% icon_link "fork" "Fork from here" url dialog=True %}`: a link with an icon and an accessible label.

    `of` appends the object's name to the label for screen readers. `title` is the tooltip and defaults to the label.
    `command` adds the link to the command palette, under its own name if it is a text. With `is_visible=False` it is
    hidden until a script shows it. `text` is shown beside the icon and must be part of the label. `counts` adds an
    element for a number. Other arguments are attributes: `data_step="-1"`.
    """
    opened = {"hx-get": url, "hx-target": DIALOG} if dialog else {}
    return _render_control("a", icon, label, {"href": url, **opened}, **how)


@register.simple_tag
def icon_button(icon: str, label: str, **how: Any) -> SafeString:
    """`{% icon_button "pause" "Pause" title="Pause live updates" %}`: a button for scripts; see `icon_link`.

    With `type="submit"` it submits its form.
    """
    return _render_control("button", icon, label, {"type": "button"}, **how)


@register.simple_block_tag
def dialog_head(content: str, back: str, icon: str = "", scope: str = "") -> SafeString:
    """`{% dialog_head back icon="fork" %}Fork at event 7{% enddialog_head %}`: title and close button of a dialog.

    `back` is the target of the close button when the dialog is shown as a page.
    """
    mark = devui.scope(scope) if scope else devui.icon(icon) if icon else ""
    close = icon_link("close", "Close", back, small=False, data_close_dialog=True)
    title = SafeString(content.strip())
    return format_html('<div class="dialog-head">{}<h1 id="dialog-title">{}</h1>{}</div>', mark, title, close)


@register.simple_block_tag
def dialog_buttons(
    content: str,
    back: str,
    icon: str,
    *,
    leave: str = "Cancel",
    is_danger: bool = False,
    is_off: object = False,
) -> SafeString:
    """`{% dialog_buttons back "fork" %}Fork{% enddialog_buttons %}`: submit button and cancel link of a dialog.

    `is_danger` marks a destructive action, `is_off` disables the button.
    """
    return format_html(
        '<p class="wide actions"><button class="button {}"{}>{}{}</button>'
        '<a class="button button-quiet" href="{}" data-close-dialog>{}</a></p>',
        "button-danger" if is_danger else "button-primary",
        SafeString(" disabled" if is_off else ""),
        devui.icon(icon),
        SafeString(content.strip()),
        back,
        leave,
    )


@register.simple_block_tag
def empty_state(content: str, icon: str, title: str, *, level: int = 2, name: str = "") -> SafeString:
    """`{% empty_state "run" "No runs yet" %}<p>why</p>{% endempty_state %}`: stands where there is nothing to list.

    `level` is that of its heading, `name` its id.
    """
    return format_html(
        '<div class="empty"{0}>{1}<h{2}>{3}</h{2}>{4}</div>',
        format_html(' id="{}"', name) if name else "",
        devui.icon(icon),
        level,
        title,
        SafeString(content),
    )


@register.simple_tag
def draw_list(context: Mapping[str, Any]) -> SafeString:
    """`{% draw_list runs %}`: one of several lists on a page, from its `page_context`."""
    return render_to_string("devui/components/table.html#list", dict(context))


@register.simple_block_tag
def selection_bar(content: str, name: str, rows: str, url: str, back: str) -> SafeString:
    """`{% selection_bar "run-actions" "runs" url back %}buttons{% endselection_bar %}`: actions on ticked rows.

    It appears when a row is ticked. `name` is the id of its form, which `pick_column` names; `rows` says what the rows
    are; `back` is the address to which the action leads back.
    """
    context = {"content": content, "name": name, "rows": rows, "url": url, "next": back}
    return render_to_string("devui/components/selection_bar.html", context)


@register.simple_block_tag
def filters(content: str, label: str, name: str, *, url: str = "", button: str = "Filter") -> SafeString:
    """`{% filters "Filter runs" "runs" %}fields{% endfilters %}`: filter form of a list.

    `name` is the id of the list's element, and the route of its page unless `url` is given. Search boxes filter on
    every keystroke, other fields when they are left. On a phone a button shows all fields but the search box. Without
    scripts, `button` submits the form.
    """
    context = {
        "content": content,
        "label": label,
        "url": url or reverse(name),
        "into": name,
        "button": button,
    }
    return render_to_string("devui/components/filters.html", context)


def _render_control(
    tag: str,
    icon: str,
    label: str,
    attributes: dict[str, Any],
    *,
    of: str = "",
    title: str = "",
    command: bool | str = False,
    small: bool = True,
    is_visible: object = True,
    counts: bool = False,
    text: str = "",
    css: str = "",
    icon_css: str = "",
    **more: Any,
) -> SafeString:
    classes = (
        "button button-small" if text else "icon-button",
        "icon-button-small" if small and not text else "",
        css,
    )
    all_attributes = {
        "class": " ".join(filter(None, classes)),
        **attributes,
        "aria-label": visible_text.escape_name(f"{label} {of}" if of else label),
        "title": title or label,
        "data-command": command,
        "hidden": not is_visible,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    shape = devui.icon(icon, css=icon_css)
    return format_html(
        "<{0}{1}>{2}{3}{4}</{0}>", tag, flatatt(all_attributes), shape, text, NUMBER if counts else ""
    )
