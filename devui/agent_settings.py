"""Django settings of programs that run agents: those of the server, without the apps of users, which only it needs."""

from devui.config import environment
from devui.settings import *  # noqa: F403 - all others
from devui.settings import INSTALLED_APPS as SERVER_APPS

INSTALLED_APPS = [app for app in SERVER_APPS if app not in environment.USER_APPS]
DEVUI_USER_APPS = []
