"""Settings from the environment, system checks, redaction of log lines."""
