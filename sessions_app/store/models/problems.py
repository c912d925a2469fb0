"""Problems of sessions. They are written after the appends: see `problems.session_checks`."""

from django.db import models

from sessions_app.store.models.sessions import AgentSession


class SessionProblem(models.Model):
    """A problem of an invocation; without an invocation, of the session. The detector has its title and remedy."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="problems", db_index=False
    )
    code = models.CharField(max_length=64)
    severity = models.CharField(max_length=8, help_text="A value of `problems.Severity`.")
    invocation_id = models.TextField(default="")
    seq = models.BigIntegerField(default=0, help_text="seq of the event; 0: the invocation as a whole.")
    agent = models.TextField(default="")
    text = models.TextField(help_text="One sentence.")
    links = models.TextField(
        default="[]", help_text="JSON: kind, target and label of each piece of evidence."
    )
    more = models.IntegerField(default=0, help_text="Number of further problems like it that are not stored.")

    class Meta:
        indexes = [
            models.Index(fields=["session", "seq", "id"], name="problem_of_event"),
            models.Index(fields=["session", "invocation_id"], name="problem_of_invocation"),
        ]
