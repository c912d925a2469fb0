"""Template and static files of the API documentation, which are django-ninja's."""

from __future__ import annotations

import importlib.util

from django.apps import AppConfig


def _ninja_templates() -> str:
    spec = importlib.util.find_spec("ninja")
    folders = (spec.submodule_search_locations if spec else None) or []
    return folders[0]


class ApiDocs(AppConfig):
    """django-ninja's folder as an app. django-ninja is not imported: it takes a fifth of the time to a page."""

    name = "devui.apis.docs_page"
    label = "devui_api_docs"
    path = _ninja_templates()
