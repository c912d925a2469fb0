"""Pages of artifacts: the files of all sessions and users, one file with its versions, uploads and deletion."""

from sessions_app.views.artifacts.contents import content, content_json
from sessions_app.views.artifacts.listed import changes, index
from sessions_app.views.artifacts.page import delete, file, of_session
from sessions_app.views.artifacts.uploading import upload

__all__ = ["changes", "content", "content_json", "delete", "file", "index", "of_session", "upload"]
