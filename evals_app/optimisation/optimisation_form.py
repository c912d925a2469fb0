"""The form of an optimisation: how the cases are divided, the optimiser and its numbers, and the bounds that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict

from evals_app.files.tags import UNTAGGED
from evals_app.optimisation import settings
from evals_app.optimisation.settings import GEPA, SIMPLE, OptimiserSettings, divide_cases
from sessions_app.lookup import parse_number
from sessions_app.store.errors import BadInput

TRAINING, VALIDATION, UNUSED = "training", "validation", "unused"
PARTS = (TRAINING, VALIDATION, UNUSED)

DIVIDE_ACTION = "divide"
TAG_ACTION = "tag"
RUN_ACTION = "run"

NUMBERS = ("proposals", "batch_size", "repetitions", "seed")


@dataclass(frozen=True)
class FormCase:
    """A case of the form with its tags, and the part that it is in."""

    id: str
    tags: Sequence[str]
    part: str


@dataclass(frozen=True)
class OptimisationForm:
    """The fields of the form; numbers are as they were typed."""

    cases: Sequence[FormCase]
    optimiser: str = SIMPLE
    model: str = ""
    proposals: str = str(settings.DEFAULT_PROPOSALS)
    batch_size: str = str(settings.DEFAULT_BATCH_SIZE)
    repetitions: str = str(settings.DEFAULT_REPETITIONS)
    seed: str = str(settings.DEFAULT_SEED)
    optimisers = {
        SIMPLE: "Simple: sees scores",
        GEPA: "GEPA: sees what happened in attempts",
    }
    parts = PARTS

    @property
    def tags(self) -> list[str]:
        """The tags of its cases; none if no case has a tag of its own."""
        tags = {tag for case in self.cases for tag in case.tags}
        return [] if tags <= {UNTAGGED} else sorted(tags)

    @property
    def bounds_text(self) -> str:
        """The most attempts and model calls of the optimisation, in words; "" while the form is incomplete."""
        try:
            return parse_settings(replace(self, model=self.model or "…")).bounds_text
        except BadInput:
            return ""

    @property
    def training_count(self) -> int:
        """Number of training cases."""
        return len(self.list_case_ids(TRAINING))

    @property
    def validation_count(self) -> int:
        """Number of validation cases."""
        return len(self.list_case_ids(VALIDATION))

    def list_case_ids(self, part: str) -> tuple[str, ...]:
        """Return the ids of the cases of a part."""
        return tuple(case.id for case in self.cases if case.part == part)


def draft_form(case_ids: Sequence[str], tags: Sequence[Sequence[str]]) -> OptimisationForm:
    """Return the form as it is first shown: half of the cases, chosen at random, are for validation.

    If the cases cannot be divided, none is in a part.
    """
    form = OptimisationForm(
        [FormCase(case_id, case_tags, UNUSED) for case_id, case_tags in zip(case_ids, tags, strict=True)]
    )
    try:
        return divide_at_random(form)
    except BadInput:
        return form


def read_form(posted: QueryDict, form: OptimisationForm, digest: str) -> OptimisationForm:
    """Return a form with the submitted values; without their parts if it was opened with a file of another digest."""
    cases = form.cases if has_changed(posted, digest) else _read_cases(posted, form.cases)
    texts = {name: posted.get(name, getattr(form, name)) for name in ("optimiser", "model", *NUMBERS)}
    return replace(form, cases=cases, **{name: text.strip() for name, text in texts.items()})


def has_changed(posted: QueryDict, digest: str) -> bool:
    """Tell whether the submitted form was opened with a file of another digest: its parts are by position."""
    return posted.get("seen") != digest


def _read_cases(posted: QueryDict, cases: Sequence[FormCase]) -> list[FormCase]:
    return [
        replace(case, part=part if (part := posted.get(f"part-{position}", "")) in PARTS else UNUSED)
        for position, case in enumerate(cases)
    ]


def apply_action(form: OptimisationForm, action: str, tag: str) -> OptimisationForm:
    """Return the form after a button was pressed.

    Raises:
        BadInput: the cases cannot be divided like this.
    """
    if action == DIVIDE_ACTION:
        return divide_at_random(form)
    if action == TAG_ACTION:
        return _divide_by_tag(form, tag)
    return form


def divide_at_random(form: OptimisationForm) -> OptimisationForm:
    """Return the form with half of the cases, chosen at random by its seed, for validation.

    Raises:
        BadInput: there are too few cases.
    """
    _, validation = divide_cases([case.id for case in form.cases], seed=_parse_number(form, "seed"))
    return _choose_validation(form, validation)


def _divide_by_tag(form: OptimisationForm, tag: str) -> OptimisationForm:
    tagged_ids = [case.id for case in form.cases if tag in case.tags]
    if not tagged_ids:
        raise BadInput(f"No case has the tag {tag!r}.", hint=f"Tags: {', '.join(form.tags) or 'none'}.")
    return _choose_validation(form, tagged_ids)


def _choose_validation(form: OptimisationForm, validation: Sequence[str]) -> OptimisationForm:
    return replace(
        form,
        cases=[replace(case, part=VALIDATION if case.id in validation else TRAINING) for case in form.cases],
    )


def parse_settings(form: OptimisationForm) -> OptimiserSettings:
    """Return the settings of a form.

    Raises:
        BadInput: a field is invalid.
    """
    case_ids = [case.id for case in form.cases]
    training, validation = form.list_case_ids(TRAINING), form.list_case_ids(VALIDATION)
    divide_cases(case_ids, training=training, validation=validation)  # refuses too few and repeated cases
    parsed = OptimiserSettings(
        form.optimiser,
        form.model,
        training,
        validation,
        **{name: _parse_number(form, name) for name in NUMBERS},
    )
    parsed.check()
    return parsed


def _parse_number(form: OptimisationForm, name: str) -> int:
    text: str = getattr(form, name)
    if (number := parse_number(text)) is None:
        raise BadInput(
            f"{name.replace('_', ' ').capitalize()}: {text[:40]!r} is no whole number.", hint="Give one."
        )
    return number
