"""Forms of runs: the draft of a message, questions of agents and their answers, requests for credentials."""
