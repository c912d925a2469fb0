"""Configuration of the evals app."""

from __future__ import annotations

from django.apps import AppConfig


class EvalsConfig(AppConfig):
    """Evalsets, eval runs, their attempts and metric results."""

    name = "evals_app"
    verbose_name = "Evals"
