"""Actions on runs: cancel, change the parallelism, resume, retry, repeat, mark as baseline, add notes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from evals_app.analysis import baselines, run_summary
from evals_app.models import EvalRun
from evals_app.runs import dispatch, rerun, run_orders
from evals_app.runs.writes import attempts, notes, runs
from sessions_app.http import person_name
from sessions_app.lookup import parse_number
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput


async def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Request the cancellation of a run. A process that does not react is ended."""
    await units_of_work.read(run_summary.find_run, run_id)
    await dispatch.cancel_run(run_id)
    return redirect("eval-run", run_id=run_id)


async def cancel_attempt(request: HttpRequest, run_id: str, attempt: int) -> HttpResponse:
    """Request the cancellation of one attempt."""
    run = await units_of_work.read(run_summary.find_run, run_id)
    attempt_row = await units_of_work.read(rerun.find_attempt, run, attempt)
    await units_of_work.write(attempts.request_cancel_attempt, attempt_row.pk)
    return redirect(f"{reverse('eval-run', kwargs={'run_id': run_id})}?attempt={attempt_row.pk}")


async def set_parallelism(request: HttpRequest, run_id: str) -> HttpResponse:
    """Change how many attempts of a run execute at once (`at_once`)."""
    run = await units_of_work.read(run_summary.find_run, run_id)
    number = _parse_whole_number(request.POST.get("at_once", ""))
    run_orders.check_parallelism(number)
    await units_of_work.write(runs.set_parallelism, run.id, number)
    return redirect("eval-run", run_id=run_id)


async def resume(request: HttpRequest, run_id: str) -> HttpResponse:
    """Resume a run with its unfinished attempts."""
    [run] = await dispatch.restart_and_deliver(
        run_id, lambda _: [rerun.resume(run_summary.find_run(run_id), person=person_name(request))]
    )
    return _run_page(run)


async def retry(request: HttpRequest, run_id: str) -> HttpResponse:
    """Retry attempts that failed or erred, or the attempt `attempt` alone. Leads to the first run that does so."""
    chosen = [_parse_whole_number(key) for key in request.POST.getlist("attempt")]

    def retry_attempts(new_id: str) -> list[EvalRun]:
        run = run_summary.find_run(run_id)
        return rerun.retry(run, chosen, run_id=new_id, person=person_name(request))

    return _run_page((await dispatch.restart_and_deliver(run_id, retry_attempts))[0])


async def repeat(request: HttpRequest, run_id: str) -> HttpResponse:
    """Repeat the whole run."""
    return _run_page(
        await dispatch.create_and_deliver(
            lambda new_id: rerun.repeat(
                run_summary.find_run(run_id), run_id=new_id, person=person_name(request)
            )
        )
    )


async def confirm(request: HttpRequest, run_id: str) -> HttpResponse:
    """Repeat the cases that look worse than in the run `with`, `repetitions` times."""
    repetitions = _parse_whole_number(request.POST.get("repetitions", ""))

    def order(new_id: str) -> EvalRun:
        run = run_summary.find_run(run_id)
        reference = baselines.require_reference(run, request.POST.get("with", ""))
        cases = baselines.cases_to_confirm(reference, run)
        return rerun.confirm(run, cases, repetitions, run_id=new_id, person=person_name(request))

    return _run_page(await dispatch.create_and_deliver(order))


async def mark_baseline(request: HttpRequest, run_id: str) -> HttpResponse:
    """Make a run the baseline of its evalset (`baseline=1`), or take that back."""
    is_baseline = request.POST.get("baseline", "1") == "1"
    await units_of_work.write(notes.mark_baseline, run_id, is_baseline, person=person_name(request))
    return redirect("eval-run", run_id=run_id)


async def note_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Keep a note about a run."""
    note = request.POST.get("note", "")
    await units_of_work.write(notes.note_run, run_id, note, person=person_name(request))
    return redirect("eval-run", run_id=run_id)


async def note_attempt(request: HttpRequest, run_id: str, attempt: int) -> HttpResponse:
    """Keep a note about an attempt."""
    run = await units_of_work.read(run_summary.find_run, run_id)
    await units_of_work.read(rerun.find_attempt, run, attempt)
    note = request.POST.get("note", "")
    await units_of_work.write(notes.note_attempt, attempt, note, person=person_name(request))
    return redirect(f"{reverse('eval-run', kwargs={'run_id': run_id})}?attempt={attempt}")


def _run_page(run: EvalRun) -> HttpResponse:
    return redirect("eval-run", run_id=run.id)


def _parse_whole_number(text: str) -> int:
    """Return a whole number that a form sent.

    Raises:
        BadInput: it is none.
    """
    if (number := parse_number(text.strip())) is None:
        raise BadInput(f"{text[:40]!r} is no whole number.", hint="Give one.")
    return number
