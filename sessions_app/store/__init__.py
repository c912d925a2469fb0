"""Access to the database.

Units of work, group commit, retries, statements, batches, full-text indexes, pagination, schema, change notification.
"""
