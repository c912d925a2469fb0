"""Messages that only greet: a session is not named by them if a later message says more."""

from __future__ import annotations

_WORDS = (
    "hi", "hi there", "hello", "hello there", "hello world", "hey", "hey there", "good morning", "good afternoon",
    "good evening", "test", "ping", "hallo", "guten tag", "guten morgen", "moin", "servus", "bonjour", "salut", "hola",
    "¡hola", "buenos días", "buenas", "olá", "Olá", "oi", "bom dia", "ciao", "buongiorno", "hoi", "hej", "cześć",
    "Cześć", "привет", "Привет", "здравствуйте", "Здравствуйте", "你好", "您好", "こんにちは", "おはよう", "もしもし",
    "안녕", "안녕하세요", "नमस्ते", "مرحبا", "สวัสดี", "xin chào", "merhaba",
)  # fmt: skip
"""Greetings in lower case. Those that begin with another letter than ASCII are here twice: SQLite lowers ASCII only."""

_SIGNS = " !.,?~…。！？、👋"
"""Characters after a greeting that say nothing more."""


def is_greeting(text: str) -> bool:
    """Tell whether a message only greets."""
    return text.rstrip(_SIGNS).lower() in _WORDS or text.rstrip(_SIGNS) in _WORDS


def greeting_sql(column: str) -> str:
    """Return the SQL condition that the text in a column only greets; the same on both databases."""
    words = ", ".join(f"'{word}'" for word in _WORDS)
    return f"rtrim(lower({column}), '{_SIGNS}') IN ({words})"
