"""Forms of cases as browsers send them."""

from __future__ import annotations

from evals_app.cases.case_forms import AppliedForm, case_form_data
from evals_app.cases.form_fields import parse_nested


def flat(data, prefix=""):
    """Yield a form's fields as a browser sends them."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in entries:
        if isinstance(value, str):
            yield f"{prefix}{name}", value.replace("\r\n", "\n").replace("\n", "\r\n")
        else:
            yield from flat(value, f"{prefix}{name}.")


def form_data(eval_case, **changed):
    return parse_nested(
        {
            **dict(flat(case_form_data(eval_case))),
            **{name.replace("__", "."): item for name, item in changed.items()},
        }.items()
    )


def apply_form(eval_case, **changed):
    return AppliedForm(form_data(eval_case, **changed), eval_case, "counter")
