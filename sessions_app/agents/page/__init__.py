"""What the page of an agent shows: its description made fit to show, drawn, with the way an invocation took."""
