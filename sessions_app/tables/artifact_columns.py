"""Columns of the list of artifacts."""

from __future__ import annotations

from typing import NamedTuple

from sessions_app.presentation import file_type
from sessions_app.store.database.pagination import Order
from sessions_app.store.models import AgentSession, Artifact
from sessions_app.tables.table import Column, Table, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/artifacts/cells.html")


class ArtifactRow(NamedTuple):
    """The newest version of a file, the address of its page, and the session that saved it, if it exists."""

    artifact: Artifact
    url: str
    session: AgentSession | None

    @property
    def size(self) -> int | None:
        """Bytes of the payload; None for a link."""
        return None if self.artifact.holding == Artifact.Holding.LINK else self.artifact.size

    @property
    def is_image(self) -> bool:
        """Tell whether its content is declared as an image."""
        return self.size is not None and file_type.media_family(self.artifact.mime_type or "") == "image"


TABLE: Table[ArtifactRow] = Table(
    name="artifacts",
    title="Artifacts",
    noun="artifact",
    icon="file",
    default_sort="-saved",
    row_id="artifact",
    row_key=lambda row: row.artifact.pk,
    css="artifact-table",
    csv_route="artifacts-csv",
    columns=(
        Column(
            "name",
            "Name",
            cell=cell("name"),
            value=lambda row: row.artifact.filename,
            css="cell-main artifact-name",
        ),
        Column("version", "Version", value=lambda row: row.artifact.version, show=str, css="number"),
        Column("type", "Type", cell=cell("type"), value=lambda row: row.artifact.mime_type, css="name-cell"),
        Column(
            "size",
            "Size",
            value=lambda row: row.size,
            show=devui.byte_size,
            order=Order("-size"),
            css="number",
        ),
        Column(
            "session",
            "Session",
            cell=cell("session"),
            value=lambda row: row.artifact.session_id or row.artifact.from_session,
            css="name-cell",
        ),
        Column("app", "App", value=lambda row: row.artifact.app_name, css="name-cell"),
        Column("user", "User", value=lambda row: row.artifact.user_id, css="name-cell"),
        Column(
            "saved",
            "Saved",
            value=lambda row: row.artifact.created_at,
            show=devui.moment,
            order=Order("-created_at"),
            css="fit",
        ),
    ),
)
