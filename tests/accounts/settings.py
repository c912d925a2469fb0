"""Settings of a server with users; the type checker reads them, because only they install the tables of users."""

import os

os.environ["DEVUI_USERS"] = "1"

from devui.settings import *  # noqa: F403 - after the variable is set
