"""Pages of the evals room, one module for each thing that people look at."""

from evals_app.views.evalsets import evalset, index
from evals_app.views.results import export, run
from evals_app.views.runs import cancel

__all__ = ["cancel", "evalset", "export", "index", "run"]
