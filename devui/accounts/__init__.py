"""The login: its owner, or with DEVUI_USERS=1 users with roles, tokens and quotas, and the audit log."""
