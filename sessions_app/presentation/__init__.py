"""Safe display of what agents, models and clients wrote. Pure."""
