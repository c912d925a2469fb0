"""Users, their roles, tokens and quotas, and the audit log: with DEVUI_USERS=1, instead of the one-password login."""
