"""Artifact pages: list, file with its versions, content, upload, deletion."""

from sessions_app.views.artifacts.artifact_list import csv_file, index
from sessions_app.views.artifacts.file_content import content, content_json
from sessions_app.views.artifacts.file_page import delete, file, open_session_file
from sessions_app.views.artifacts.file_upload import upload

__all__ = ["content", "content_json", "csv_file", "delete", "file", "index", "open_session_file", "upload"]
