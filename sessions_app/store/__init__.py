"""Database access: units of work, group commit, retries, SQL statements, batches, full-text indexes, pagination."""
