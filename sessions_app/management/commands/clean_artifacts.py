"""`manage.py clean_artifacts`: remove artifact files that no row refers to."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from sessions_app.store.artifacts import artifact_versions, content_files


class Command(BaseCommand):
    """Removes files left behind by killed saves and deletions. Safe while agents run."""

    help = (
        "Remove artifact files that nothing refers to, such as those of an interrupted save. "
        "Safe while agents run."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove the files and print their number."""
        removed = artifact_versions.remove_orphaned_content()
        self.stdout.write(f"Removed {removed} orphaned file(s) from {content_files.folder()}.")
