"""Hostile ids: ADK allows any character in the id of an app, a user or a session."""

HOSTILE_IDS = [
    "a/b", "/", "//", "a//b", "/a/", "%", "%2F", "%252F", "%zz", "a%20b", "a b", "two  spaces",
    "#", "?", "a?b=c#d", ";", "+", "\\", '"', "'", "<script>alert(1)</script>", "&amp;", "{}", "[0]", "~",
    "a\nb", "a\tb", "émoji 🦊", "東京", "a\u2028b", "\u202etxt.exe", "..a", "None", "0", "sessions", "x" * 512,
]  # fmt: skip
