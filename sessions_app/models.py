"""Django finds the tables of an app here; `store.models` defines them."""

from sessions_app.store import models as models
