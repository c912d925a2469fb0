"""What agents, models and clients wrote, made fit to show. Pure."""
