"""Simulations of the decision of comparisons, held to targets. `make trust` runs them."""
