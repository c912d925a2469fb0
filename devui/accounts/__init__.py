"""Users, their roles and tokens, and the audit log: installed with DEVUI_USERS=1 instead of the one-password login."""
