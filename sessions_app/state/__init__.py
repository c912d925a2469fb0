"""State at any event, its history, the difference between two points in time, drift, lint hints, shared state."""
