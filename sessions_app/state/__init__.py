"""Read models of state: the board, the history of a key, the difference of two events, shared state."""
