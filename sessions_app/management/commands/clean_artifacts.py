"""`manage.py clean_artifacts`: remove files of artifacts that no row refers to."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from sessions_app.artifacts import artifact_versions, content_files


class Command(BaseCommand):
    """Removes what killed saves and deletions have left. Safe while agents run."""

    help = (
        "Remove files of artifacts that nothing refers to any more, such as those of a save that was killed."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Clean up and say what was done."""
        removed = artifact_versions.remove_orphaned_content()
        self.stdout.write(f"Removed {removed} orphaned file(s) from {content_files.folder()}.")
