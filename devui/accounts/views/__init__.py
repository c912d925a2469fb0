"""Views of sign-in, account and audit log."""
