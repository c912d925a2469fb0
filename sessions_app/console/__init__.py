"""What the console needs for a run: the draft of a message, and the questions of agents with their answers."""
