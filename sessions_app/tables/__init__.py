"""Lists as tables: their columns, in the order and with the columns that the address says, and as CSV."""
