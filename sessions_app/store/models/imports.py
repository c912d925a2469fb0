"""Sources of imported and mirrored sessions."""

from django.db import models

from sessions_app.store.models.sessions import AgentSession
from sessions_app.store.models.state import Scope


class ImportSource(models.Model):
    """Another program's store from which sessions were imported."""

    location = models.TextField(unique=True, help_text="Path or URL, without a password.")
    format = models.TextField(help_text="Name of the detected format.")
    fingerprint = models.TextField(default="", help_text="Fingerprint when it was last read completely.")
    read_at = models.FloatField(null=True, help_text="When it was last read completely; null: never.")


class ImportedSession(models.Model):
    """The source of an imported session. Events after `last_seq` were added here."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="imported")
    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="sessions")
    last_seq = models.BigIntegerField(default=0, help_text="seq of the last imported event.")
    is_settled = models.BooleanField(default=False, help_text="All its events and state are imported.")


class MirroredSession(models.Model):
    """A session that another ADK service owns. The rows here are a copy for display."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="mirrored")
    place = models.TextField(help_text="ADK's URI of the service, without a password.")
    behind = models.TextField(default="", help_text="How the copy differs from the original; empty: not.")


class ImportedScope(models.Model):
    """A user's or an app's state that only one import source has written, up to `version`."""

    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="scopes")
    scope = models.CharField(max_length=8, choices=Scope)
    owner_id = models.BigIntegerField(help_text="Primary key of the UserScope or AppScope.")
    version = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "owner_id"], name="imported_scope")]
