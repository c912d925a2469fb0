"""Migrations of the tables of this app. `0001_schema` creates all of them.

Stores that were written before the first release have the migrations of that time instead: see `sessions_app.store.database.schema`.
"""

REPLACED = [
    ("accounts", "0001_initial"),
    ("accounts", "0002_tokens_and_audit"),
    ("accounts", "0003_oidc_accounts"),
    ("accounts", "0004_quotas"),
    ("accounts", "0005_audit_action"),
    ("accounts", "0006_own_limits"),
    ("accounts", "0007_tokens_are_revoked_together"),
]
"""Migrations before the first release, which `0001_schema` replaces."""
