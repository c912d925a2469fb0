"""Settings from the environment, system checks, log lines without credentials."""
