"""Access to the database: units of work, transactions, statements, full text, schema, change notifications."""
