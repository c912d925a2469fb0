"""Sessions, events and scoped state of ADK agents: the store, its history, and the pages that show them."""
