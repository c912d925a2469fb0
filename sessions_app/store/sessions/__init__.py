"""The write service of sessions and the ledger of their state."""
