"""Export of a comparison of two runs as one self-contained HTML page without scripts and credentials. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.template.loader import render_to_string

from evals_app.analysis import agent_changes, baselines, side_by_side
from evals_app.analysis.baselines import Reference
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.ci_gate import GateResult
from evals_app.analysis.run_differences import read_currency, read_differences
from evals_app.analysis.side_by_side import CaseTurnPair, TurnSide
from evals_app.analysis.slices import read_slices
from evals_app.models import EvalRun
from sessions_app.presentation.text_diff import DiffPiece
from sessions_app.store.redaction import redact_text, redact_texts
from sessions_app.transfer.html_page import redact_markup

MAX_OPEN_CASES = 20
"""Cases that are shown with both sides, those with the worst verdicts first."""

MAX_TURNS = 20
"""Turns of a case that are shown."""

MAX_CALLS = 50
"""Tool calls of a turn that are shown."""

MAX_ANSWER = 10_000
"""Characters of an answer that are shown."""


def comparison_html(result: GateResult) -> str:
    """Return the comparison of a run as one page: verdicts on all cases, and both sides of those that changed.

    Credentials are removed before texts are compared, because marks of differences could split them, and once more
    from the whole page.
    """
    run, (reference, comparison) = result.run, result.require_comparison()
    changed_cases = [case for case in comparison.cases if case.verdict != Verdict.UNCHANGED]
    context = {
        "result": result,
        "reference": reference,
        "run": run,
        "comparison": comparison,
        "differences": read_differences(reference.run, run),
        "currency": read_currency(run),
        "one_currency": baselines.has_one_currency(reference, run),
        "agents": agent_changes.read_agent_changes(comparison, redact_texts),
        "slices": read_slices(run, comparison),
        "open_cases": [_open_case(reference, run, case) for case in changed_cases[:MAX_OPEN_CASES]],
        "omitted": max(0, len(changed_cases) - MAX_OPEN_CASES),
    }
    return redact_markup(render_to_string("devui/evals/report_comparison.html", context))


def _open_case(reference: Reference, run: EvalRun, case: CaseChange) -> dict[str, Any]:
    sides = side_by_side.read_case(reference.find_run(case.key), run, case, redact=redact_texts)
    for side in (sides.before, sides.after):
        if side:
            side.attempt.error = redact_text(side.attempt.error)
    return {
        "sides": sides,
        "turns": [_turn_context(pair) for pair in sides.turns[:MAX_TURNS]],
        "omitted": max(0, len(sides.turns) - MAX_TURNS),
    }


def _turn_context(pair: CaseTurnPair) -> dict[str, Any]:
    return {
        "pair": pair,
        "calls": pair.calls[:MAX_CALLS],
        "omitted": max(0, len(pair.calls) - MAX_CALLS),
        "answers": [_answer_context(side) for side in (pair.before, pair.after)],
    }


def _answer_context(side: TurnSide | None) -> dict[str, Any] | None:
    """Return the shown pieces of an answer and the number of characters left out; None without an answer."""
    if side is None or not side.has_answer:
        return None
    length = sum(len(piece.text) for piece in side.answer)
    return {"pieces": _first_pieces(side.answer), "omitted": max(0, length - MAX_ANSWER)}


def _first_pieces(pieces: Sequence[DiffPiece]) -> list[DiffPiece]:
    first_pieces, room = [], MAX_ANSWER
    for piece in pieces:
        first_pieces.append(DiffPiece(piece.text[:room], piece.differs))
        room = max(0, room - len(piece.text))
    return first_pieces
