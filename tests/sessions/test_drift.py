"""Drift: differences between the stored state and the events, and their causes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.store.models import (
    AgentSession,
    AppState,
    ChangeCause,
    Event,
    SessionState,
    StateChange,
    UntrackedKey,
    UserState,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from sessions_app.store.state import drift
from sessions_app.store.state import history as history
from sessions_app.store.state.drift import DriftCause
from sessions_app.store.state.points import FEW_KEYS
from tests.timeline.story import Story, many_keys

pytestmark = pytest.mark.django_db


def drift_rows(story: Story, **how: bool) -> list[tuple[str, str | None, str | None, str]]:
    return [(d.name, d.stored, d.folded, str(d.why)) for d in drift.find_drift(story.session, **how).keys]


@pytest.fixture(params=[False, True], ids=["by the ledger", "from the events"])
def how(request: pytest.FixtureRequest) -> dict[str, bool]:
    """Both ways to add the events up."""
    return {"from_events": request.param}


def test_session_explained_by_its_events_has_no_drift(how):
    story = Story()
    story.says("a", delta={"n": 1, "user:n": 1, "app:n": {"b": [1.5, None]}})
    story.says("b", delta={"n": 2, "secret": {"authType": "apiKey", "apiKey": "hush"}})
    assert drift_rows(story, **how) == []


def test_seeds_are_listed_until_an_event_writes_them(how):
    story = Story(initial={"n": 0, "m": 1, "user:n": "x", "app:n": None})
    story.says("a", delta={"n": 1})
    assert drift_rows(story, **how) == [
        ("m", "1", None, "seed"),
        ("user:n", '"x"', None, "seed"),
        ("app:n", "null", None, "seed"),
    ]


@pytest.mark.parametrize("name", ["user:n", "app:n"])
def test_writes_of_other_sessions_are_listed_beside_own_ones(how, name):
    story, other = Story("s1"), Story("s2")
    story.says("a", delta={name: 1})
    other.says("x", delta={name: 2})
    [entry] = drift.find_drift(story.session, **how).keys
    assert (entry.name, entry.stored, entry.folded, entry.why) == (name, "2", "1", DriftCause.OTHER_SESSION)
    assert (entry.change.from_session, entry.change.session_id) == ("s2", other.pk)
    writes.delete_session(other.key)
    assert drift_rows(story, **how) == [(name, "2", "1", "other_session")]
    story.says("b", delta={name: 2})
    assert drift_rows(story, **how) == []


def test_only_unexplained_values_are_drift(how):
    story, other = (
        Story("s1", {"seed": 1, "user:seed": 1, "foreign": 1, "brought": 1, "gone": 1}),
        Story("s2"),
    )
    story.says("a", delta={"user:n": 1, "corrected": 1})
    other.says("x", delta={"user:n": 2})
    writes.edit_state(story.key, {}, removed=["gone"])
    SessionState.objects.filter(key="foreign").update(value="2")
    for key in ("brought", "corrected"):
        row = StateChange.objects.get(key=key)
        row.cause, row.pk, row.seq, row.value = ChangeCause.IMPORT, None, 0, "5"
        row.save()
        SessionState.objects.filter(key=key).update(value="5")
    report = drift.find_drift(story.session, **how)
    assert [(entry.name, entry.why) for entry in report.drifts] == [
        ("corrected", "import"),
        ("foreign", "foreign"),
    ]
    assert [(entry.name, entry.why) for entry in report.explained_drifts] == [
        ("brought", "import"),
        ("gone", "removed"),
        ("seed", "seed"),
        ("user:n", "other_session"),
        ("user:seed", "seed"),
    ]


def test_manual_removal_without_null_event_is_listed(how):
    story = Story(initial={"gone": 1})
    story.says("a", delta={"user:gone": 1, "app:null": None})
    writes.edit_state(story.key, {}, removed=["gone", "user:gone"])
    assert drift_rows(story, **how) == [
        ("gone", None, "null", "removed"),
        ("user:gone", None, "null", "removed"),
    ]


def test_an_edit_is_an_event_and_no_drift(how):
    story = Story(initial={"n": 0})
    writes.edit_state(story.key, {"n": 1, "app:n": 1})
    assert drift_rows(story, **how) == []


def test_rows_that_something_else_wrote_are_foreign(how):
    story = Story()
    story.says("a", delta={"n": 1, "m": 1, "user:n": 1, "app:n": 1})
    SessionState.objects.filter(key="n").update(value="2")
    SessionState.objects.filter(key="m").delete()
    UserState.objects.update(value="3")
    owner = AppState.objects.get().owner
    AppState.objects.create(owner=owner, key="odd", key_id="odd", value="4", position=9)
    assert drift_rows(story, **how) == [
        ("m", None, "1", "foreign"),
        ("n", "2", "1", "foreign"),
        ("user:n", "3", "1", "foreign"),
        ("app:odd", "4", None, "foreign"),
    ]


def test_event_changed_outside_the_ledger_is_detected_by_folding():
    story = Story()
    story.says("a", delta={"n": 1})
    event = story.event(1)
    Event.objects.filter(pk=event.pk).update(data=event.data.replace('{"n":1}', '{"n":2}'))
    assert drift_rows(story) == []
    assert drift_rows(story, from_events=True) == [("n", "1", "2", "foreign")]


def test_imported_state_without_event_is_listed(how):
    story = Story(initial={"n": 1, "user:n": 2})
    StateChange.objects.update(cause=ChangeCause.IMPORT)
    assert [why for *_, why in drift_rows(story, **how)] == ["import", "import"]


def test_state_copied_by_a_fork_is_listed(how):
    story = Story(initial={"n": 1, "user:n": 2})
    StateChange.objects.filter(scope="user").update(cause=ChangeCause.FORK, session=None)
    assert [why for *_, why in drift_rows(story, **how)] == ["seed", "fork"]


def test_recreated_session_starts_without_old_state(how):
    story = Story(initial={"own": 1, "user:n": 1})
    story.says("a", delta={"own": 2, "user:n": 2})
    writes.delete_session(story.key)
    again = Story(initial={"own": 7})
    assert drift_rows(again, **how) == [("own", "7", None, "seed"), ("user:n", "2", None, "other_session")]
    rows = StateChange.objects.filter(scope="session")
    assert [(row.value, row.cause) for row in rows] == [("7", "seed")]


def test_write_too_far_back_is_reported_as_unknown():
    story, other = Story("s1"), Story("s2")
    story.says("a", delta={"app:n": 1})
    for number in range(drift.WRITES_SEARCHED + 1):
        other.says("x", delta={"app:n": 10 + number})
    [entry] = drift.find_drift(story.session).keys
    assert (entry.folded, entry.is_known, entry.why) == (None, False, DriftCause.OTHER_SESSION)
    [entry] = drift.find_drift(story.session, from_events=True).keys
    assert (entry.folded, entry.is_known, entry.why) == ("1", True, DriftCause.OTHER_SESSION)


def test_credentials_are_compared_and_not_shown(how):
    credential = {"authType": "apiKey", "apiKey": "hush"}
    story, other = Story("s1"), Story("s2")
    story.says("a", delta={"user:held": credential})
    other.says("x", delta={"user:held": {**credential, "apiKey": "hush2"}})
    [entry] = drift.find_drift(story.session, **how).keys
    assert (entry.stored, entry.folded) == ('{"authType":"apiKey"}', '{"authType":"apiKey"}')


def test_keys_changed_without_event_are_listed_newest_first():
    story = Story()
    story.says("a", delta={"n": 1})
    from sessions_app.store import scopes

    for number in (1, 2):
        untracked_change = writes.UntrackedWrite("n", scopes.canonicalize(number), "1")
        writes.note_untracked(story.key, f"i{number}", [untracked_change])
    assert [(row.value, row.stored, row.seq) for row in drift.find_drift(story.session).untracked] == [
        ("2", "1", 1),
        ("1", "1", 1),
    ]
    writes.delete_session(story.key)
    assert not UntrackedKey.objects.exists()


@pytest.mark.parametrize("events", [2, 40])
def test_drift_costs_the_same_number_of_queries_at_any_length(django_assert_num_queries, events):
    story = Story(initial={"n": 0, "user:n": 0, "app:n": 0})
    for number in range(events):
        story.says("x", delta={"n": number, "user:n": number, "app:n": number})
    session = story.session
    with django_assert_num_queries(11):
        drift.find_drift(session)


NAMES = ["a", "b", "user:a", "app:a"]
values = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 1) | st.text(max_size=2)
deltas = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
steps = st.tuples(st.sampled_from([0, 1]), deltas, st.sets(st.sampled_from(NAMES), max_size=1))
_programs = iter(range(10**9))


@settings(
    max_examples=settings.default.max_examples // 8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(seeds=deltas, program=st.lists(steps, max_size=10))
def test_ledger_agrees_with_folded_events(db, seeds, program):
    """Random programs of two sessions of a user: appends, edits and removals, against the plain fold as the oracle."""
    app = f"app{next(_programs)}"
    stories = [Story("s1", seeds, app=app), Story("s2", app=app)]
    for which, delta, removed in program:
        present = {**history.state_at(stories[which].session).merge_scopes(), **delta}
        removed_names = [name for name in removed if name in present and name not in delta]
        if delta or removed_names:
            writes.edit_state(stories[which].key, delta, removed=removed_names)
    for story in stories:
        stored = history.state_at(story.session).merge_scopes()
        folded = drift.fold_events(story.session)
        expected = {
            name: (_json(stored, name), _json(folded, name))
            for name in {*stored, *folded}
            if _json(stored, name) != _json(folded, name)
        }
        for how in (False, True):
            keys = drift.find_drift(story.session, from_events=how).keys
            assert {d.name: (d.stored, d.folded) for d in keys} == expected
            assert all(d.is_known and d.why != DriftCause.FOREIGN for d in keys)
            for entry in keys:
                if entry.why == DriftCause.SEED:
                    assert (story, entry.name in seeds, entry.folded) == (stories[0], True, None)
                if entry.why == DriftCause.REMOVED:
                    assert (entry.stored, entry.folded) == (None, "null")


def _json(values: dict[str, Any], name: str) -> str | None:
    return json.dumps(values[name], ensure_ascii=False) if name in values else None


def test_a_session_without_state_has_no_drift(how):
    key = SessionKey("", "weather", "ann", "s9")
    session = writes.create_session(key)
    assert drift.find_drift(AgentSession.objects.get(pk=session.pk), **how).keys == []


@pytest.mark.parametrize("number", [drift.PAGE + 1, FEW_KEYS + 1])
def test_limit_bounds_checked_keys_with_foreign_ones_first(number):
    story = Story("s1", many_keys(number=number))
    story.says("a", delta={"own": 1})
    SessionState.objects.filter(key="z0500").update(value="80")
    report = drift.find_drift(story.session, most=3)
    assert [entry.key for entry in report.keys if entry.why == drift.DriftCause.FOREIGN] == ["z0500"]
    assert len(report.keys) + report.unread == number
    assert report.unread > 0
    assert drift.find_drift(story.session).unread == 0


def test_drift_is_found_behind_many_candidate_keys():
    story, other = Story("s1"), Story("s2")
    same = {f"user:a{number}": number for number in range(drift.PAGE + 1)}
    story.says("mine", delta={**same, "user:z": 1})
    other.says("the same again", delta={**same, "user:z": 2})
    report = drift.find_drift(story.session, most=1)
    assert [(entry.name, entry.stored, entry.folded) for entry in report.keys] == [("user:z", "2", "1")]
    assert report.unread == 0
