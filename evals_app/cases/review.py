"""A case's form on its way to the file: looked at as a diff, held against what others wrote meanwhile, then saved.

A form knows on which text of the file it was opened. When the file has moved on but the case has not, the change is
worked out anew on what the file says now and looked at again. When the case itself was changed, nothing is saved
until somebody has seen both sides and chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evals_app.cases import file_changes
from evals_app.cases.case_forms import Applied, form_of
from evals_app.cases.file_changes import Change
from evals_app.cases.form_fields import Nested
from evals_app.cases.versions import paired_cases
from evals_app.files import BadFile, Problem, library
from evals_app.files.atomic_writes import FileChanged, digest_of
from evals_app.files.editing import Sheet, case_json
from evals_app.files.pairing import same
from evals_app.files.parsing import only_case
from evals_app.models import EvalSet
from sessions_app import scopes
from sessions_app.errors import AlreadyExists, BadInput, NotFound

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """What a form was opened on.

    Attributes:
        digest: of the file's text; "" of a new case that copies none.
        place: of the case in it; None: the form starts empty.
        is_new: a case is added, whatever the form was opened on.
        over: mark of a case in its place that somebody has seen and wants to replace.
    """

    digest: str
    place: int | None
    is_new: bool
    over: str = ""


@dataclass(frozen=True)
class Conflict:
    """A case that others changed, or took out, while a form of it was open. `theirs` None: it is gone."""

    base: Json
    mine: Json
    theirs: Json | None

    @property
    def mark(self) -> str:
        """What tells the case that the file has now from another one."""
        return digest_of(scopes.dumps(self.theirs))


@dataclass(frozen=True)
class Review:
    """What a form comes to.

    Attributes:
        case: the case that it makes.
        errors: what cannot be meant, by field; then there is no change.
        change: what it would make of the file.
        moved_on: the file says something else than when the form was opened, the case does not.
    """

    case: Json
    errors: dict[str, str] = field(default_factory=dict)
    change: Change | None = None
    conflict: Conflict | None = None
    moved_on: bool = False


def opened_case(evalset: EvalSet, opened: Opened) -> Json:
    """Return the case that a form was opened on; {} when it was on none.

    Raises:
        NotFound: nobody knows any more what the file said then, or it has no such case.
    """
    if opened.place is None:
        return {}
    known = _cases_at(evalset, opened.digest)
    if opened.place >= len(known):
        raise NotFound("The evalset has no such case.", hint="Open it from the evalset's page.")
    return known[opened.place]


Made = tuple[Json, dict[str, str]]


def from_form(data: Nested, app_name: str) -> Callable[[Json], Made]:
    """Return what makes a case of the one that a form was opened on, and what cannot be meant in it."""

    def make(kept: Json) -> Made:
        found = Applied(data, kept, app_name)
        return found.case, found.errors

    return make


def from_text(text: str) -> Callable[[Json], Made]:
    """Return what makes a case of its JSON, in either spelling of ADK's."""

    def make(kept: Json) -> Made:
        try:
            return case_json(only_case(text)), {}
        except BadFile as error:
            return kept, {"raw": "\n".join(_told(problem) for problem in error.problems)}

    return make


def _told(problem: Problem) -> str:
    place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
    return f"{place}{problem.field}: {problem.what}" if problem.field else f"{place}{problem.what}"


def review(evalset: EvalSet, opened: Opened, make: Callable[[Json], Made]) -> Review:
    """Return what a form would make of the file as it is now. Nothing is written.

    Raises:
        NotFound: the file is gone, or what the form was opened on is not known any more.
        BadFile: the file cannot be used as it is, or could not with this case.
        BadInput: the file's form cannot hold the case.
    """
    kept = opened_case(evalset, opened)
    case, errors = make(kept)
    if errors:
        return Review(case, errors)
    file = file_changes.file_of(evalset)
    if opened.is_new:
        change = file_changes.worked_out(evalset, _adding(case), file)
        return Review(case, change=change)
    digest = digest_of(file.text)
    now = [case_json(case) for case in file.content.cases]
    place = _place_now(evalset, opened, now, digest)
    theirs = None if place is None else now[place]
    if place is None or not same(theirs, kept):
        conflict = Conflict(kept, case, theirs)
        if opened.over != conflict.mark:
            return Review(case, conflict=conflict)
    change = file_changes.worked_out(evalset, _putting(place, case), file)
    return Review(case, change=change, moved_on=digest != opened.digest)


def save_change(change: Change, seen: str, origin: str = "page") -> EvalSet | None:
    """Write what was looked at; None when that is not what would be written now, so that it is looked at again.

    Args:
        change: what would be written.
        seen: the mark of the change that somebody looked at.
        origin: who makes it, as versions tell it.

    Raises:
        NotFound: the file is gone.
        BadInput: it cannot be written.
    """
    if change.mark != seen:
        return None
    try:
        return file_changes.save(change, origin)
    except FileChanged:
        return None


def copy_of(case: Json, taken: set[str]) -> Nested:
    """Return the form of a copy of a case, under an id that is free."""
    return {**form_of(case), "case_id": free_id(str(case.get("eval_id") or "case"), taken)}


def free_id(wanted: str, taken: set[str]) -> str:
    """Return an id that is not taken: the one that is wanted, or that with a number."""
    if wanted not in taken:
        return wanted
    stem, dash, number = wanted.rpartition("-")
    base, at = (stem, int(number)) if dash and number.isdecimal() and len(number) < 8 else (wanted, 1)
    while f"{base}-{at + 1}" in taken:
        at += 1
    return f"{base}-{at + 1}"


# --- Changes of an evalset that are no form of a case ---


def removing(place: int, case_id: str) -> Callable[[Sheet], None]:
    """Return the edit that takes a case out.

    Raises, when done:
        NotFound: another case stands there now.
    """

    def edit(sheet: Sheet) -> None:
        _check(sheet, place, case_id)
        del sheet.cases[place]

    return edit


def moving(place: int, case_id: str, to: int) -> Callable[[Sheet], None]:
    """Return the edit that moves a case to another place, counted from 0; one beyond the end is the end."""

    def edit(sheet: Sheet) -> None:
        _check(sheet, place, case_id)
        sheet.cases.insert(max(to, 0), sheet.cases.pop(place))

    return edit


def adding_all(cases: list[Json]) -> Callable[[Sheet], None]:
    """Return the edit that adds cases; an id that is taken gets a number."""

    def edit(sheet: Sheet) -> None:
        taken = {str(case.get("eval_id")) for case in sheet.cases}
        for case in cases:
            name = free_id(str(case.get("eval_id")), taken)
            taken.add(name)
            sheet.cases.append({**case, "eval_id": name})

    return edit


def describing(name: str, description: str) -> Callable[[Sheet], None]:
    """Return the edit that gives an evalset another name and description."""

    def edit(sheet: Sheet) -> None:
        for field_name, said in (("name", name), ("description", description)):
            if said != (sheet.about.get(field_name) or ""):
                sheet.about[field_name] = said or None

    return edit


def modernising(evalset_id: str) -> Callable[[Sheet], None]:
    """Return the edit that writes an older file in ADK's present form."""

    def edit(sheet: Sheet) -> None:
        sheet.present_form = evalset_id

    return edit


def _check(sheet: Sheet, place: int, case_id: str) -> None:
    if place >= len(sheet.cases) or sheet.cases[place].get("eval_id") != case_id:
        raise NotFound(
            f"Case {case_id!r} does not stand at place {place + 1} any more.",
            hint="Others changed the file: open the evalset's page again.",
        )


def _adding(case: Json) -> Callable[[Sheet], None]:
    def edit(sheet: Sheet) -> None:
        refuse_taken(sheet, case, None)
        sheet.cases.append(case)

    return edit


def _putting(place: int | None, case: Json) -> Callable[[Sheet], None]:
    def edit(sheet: Sheet) -> None:
        refuse_taken(sheet, case, place)
        if place is None:
            sheet.cases.append(case)
        else:
            sheet.cases[place] = case

    return edit


def refuse_taken(sheet: Sheet, case: Json, place: int | None) -> None:
    """Refuse an id that another case has, unless the case had it before, too. `place` None: the case is new.

    Raises:
        IdTaken: there is another one.
    """
    same_id = [at for at, one in enumerate(sheet.cases) if one.get("eval_id") == case["eval_id"]]
    if same_id and place not in same_id:
        raise IdTaken(
            f"The evalset has a case {case['eval_id']!r} already.", hint="Give this one another id."
        )


class IdTaken(AlreadyExists, BadInput):
    """An evalset has a case of this id."""

    status = AlreadyExists.status
    code = AlreadyExists.code


def _place_now(evalset: EvalSet, opened: Opened, now: list[Json], digest: str) -> int | None:
    if digest == opened.digest:
        return opened.place
    places = paired_cases(_cases_at(evalset, opened.digest), now)
    return places.index(opened.place) if opened.place in places else None


def _cases_at(evalset: EvalSet, digest: str) -> list[Json]:
    """Return the cases of a text of the file.

    Raises:
        NotFound: nobody kept what it said.
    """
    version = evalset.versions.filter(digest=digest).first()
    if version is None:
        raise NotFound(
            "What the file said when this form was opened is not known.",
            hint="Open the case again; copy what you wrote first.",
        )
    found: list[Json] = json.loads(version.content)["eval_cases"]
    return found


def place_of(evalset: EvalSet, case_id: str, at: str = "") -> int:
    """Return where a case stands; of several of one id the one at `at`, else the first.

    Raises:
        NotFound: there is none of this id.
    """
    names = [case["id"] for case in library.cases_of(evalset)]
    if at.isdecimal() and int(at) < len(names) and names[int(at)] == case_id:
        return int(at)
    if case_id not in names:
        raise NotFound(
            f"Evalset {evalset.evalset_id!r} has no case {case_id!r}.", hint="Its page lists the cases."
        )
    return names.index(case_id)
