"""Configuration of the sessions app."""

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    """Sessions, events, scoped state, runs."""

    name = "sessions_app"
    verbose_name = "Sessions"
