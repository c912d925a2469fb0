"""Token with which web processes call a worker's listener."""

from __future__ import annotations

import hmac

from django.conf import settings


def token_of(worker_id: str) -> str:
    """Return the token of a worker: derived from the secret that web processes and workers share."""
    return hmac.new(settings.SECRET_KEY.encode(), f"worker:{worker_id}".encode(), "sha256").hexdigest()
