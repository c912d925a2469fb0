"""Evalset files changed by people, by programs and by ADK's front end, in their own words and never unseen."""

from evals_app.cases.adk_edits import add_case, case, place_of, remove_case, replace_case
from evals_app.files.file_changes import (
    ID,
    Change,
    NewFile,
    agents_folder,
    cases,
    change,
    create,
    evalset_of,
    file_of,
    put,
    remove,
    save,
    text_of,
    worked_out,
    worked_out_new,
)

__all__ = [
    "ID",
    "Change",
    "NewFile",
    "add_case",
    "agents_folder",
    "case",
    "cases",
    "change",
    "create",
    "evalset_of",
    "file_of",
    "place_of",
    "put",
    "remove",
    "remove_case",
    "replace_case",
    "save",
    "text_of",
    "worked_out",
    "worked_out_new",
]
