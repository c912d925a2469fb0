"""The write service and its ledger; lists, labels, saved views, edits of state, deletion, purge, lineage."""
