"""Evalset files as they were, runs of them, attempts, and the scores of every attempt.

An attempt is one repetition of one case. It has a realm of its own, so it starts from what its case gives and
touches nothing else. Times are float seconds since the epoch; JSON is kept in text columns.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from sessions_app.store.models import AgentSession, ModelCall, RuntimeProcess

CONFIRMATION = "confirm"
"""Source of a run that confirms or refutes that cases of the run it `repeats` became worse."""

RETRY = "retry"
"""Source of a run that tries attempts again which had an outcome in the run it `repeats`. First outcomes count."""

REPEAT_SOURCES = (CONFIRMATION, RETRY)
"""Sources of runs that repeat a part of another run. Histories, trends and lists of newest runs leave them out."""

OPTIMISATION = "optimise"
"""Source of a run that scores a candidate of an optimisation on a batch of cases."""

PARTIAL_SOURCES = (*REPEAT_SOURCES, OPTIMISATION)
"""Sources of runs that are a part of other work and mean nothing alone."""

COUNTS_IN_HISTORY = ~models.Q(source__in=PARTIAL_SOURCES) & models.Q(variant_hash="")
"""Condition of runs of the agent as it is in its files, without those of a part: its history and trends."""


class EvalSet(models.Model):
    """One evalset file, as it was when last looked at. The file stays the truth."""

    app_name = models.TextField()
    evalset_id = models.TextField()
    path = models.TextField(help_text="Relative to the agents folder, or absolute if outside.")
    format = models.CharField(max_length=8, default="json", help_text="json or yaml.")
    form = models.CharField(max_length=8, default="evalset", help_text="evalset, legacy or flat.")
    name = models.TextField(default="")
    description = models.TextField(default="")
    digest = models.CharField(max_length=64, default="", help_text="SHA-256 of the file's bytes.")
    stamp = models.TextField(
        default="", help_text="Size and change time; the file is read again if it differs."
    )
    cases = models.TextField(default="[]", help_text="JSON: [{id, turns, scenario, says}] for lists.")
    case_count = models.IntegerField(default=0)
    problems = models.TextField(default="[]", help_text="JSON: why the file cannot be used.")
    warnings = models.TextField(default="[]", help_text="JSON: probable mistakes, in words.")
    gone = models.BooleanField(default=False, help_text="The file was deleted.")
    seen_at = models.FloatField(default=0.0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["app_name", "evalset_id"], name="evalset_identity")]


class EvalSetVersion(models.Model):
    """Version of an evalset file, in ADK's current format. Runs refer to it, so they can be repeated."""

    evalset = models.ForeignKey(EvalSet, on_delete=models.CASCADE, related_name="versions")
    digest = models.CharField(max_length=64)
    content = models.TextField(help_text="JSON: ADK's EvalSet, snake case.")
    created_at = models.FloatField()
    origin = models.CharField(max_length=16, default="disk", help_text="disk, page, api or session.")
    note = models.TextField(default="", help_text="Comment of the person who changed it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["evalset", "digest"], name="evalset_version_identity")]


class EvalRun(models.Model):
    """One run of an evalset, with all that is needed to repeat it."""

    class Status(models.TextChoices):
        """Status of a run. Done means that every attempt has ended, not that it passed."""

        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed", "could not run"
        CANCELLED = "cancelled"
        STOPPED = "stopped", "stopped at a limit"
        CRASHED = "crashed"

    ACTIVE = (Status.PENDING, Status.RUNNING)

    id = models.CharField(max_length=32, primary_key=True)
    evalset = models.ForeignKey(EvalSet, on_delete=models.CASCADE, related_name="runs")
    version = models.ForeignKey(EvalSetVersion, on_delete=models.CASCADE, related_name="runs")
    app_name = models.TextField(help_text="The agent that runs, whatever the cases name.")
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    source = models.CharField(
        max_length=16,
        default="page",
        help_text="page, api, command, pytest or import: who ordered it; confirm or retry: what it repeats; optimise.",
    )
    person = models.TextField(
        default="",
        db_default="",
        help_text="Name of the person who ordered or last resumed it; empty: unknown.",
    )
    config = models.TextField(help_text="JSON: ADK's EvalConfig.")
    config_source = models.TextField(default="")
    case_ids = models.TextField(default="[]", help_text="JSON: the cases chosen; empty: all.")
    shard = models.CharField(
        max_length=16, default="", help_text="The part of the cases that it runs, such as 2/4; empty: all."
    )
    num_runs = models.IntegerField(default=1)
    parallelism = models.IntegerField(default=4, help_text="Attempts at once; may change while it runs.")
    policy = models.TextField(default="{}", help_text="JSON: {models, tools, source} of the replay.")
    limits = models.TextField(
        default="{}",
        help_text="JSON: {seconds, tokens, cost} of the run; attempt_seconds, retry_seconds.",
    )
    prices = models.TextField(default="{}", help_text="JSON: the price table used, so that costs stay.")
    repeats = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="repeated_by",
        help_text="The run that this one repeats, or of which it repeats a part.",
    )
    variant = models.TextField(
        default="",
        db_default="",
        help_text="JSON: {name, note, agents} of a variant; empty: the agent as it is.",
    )
    variant_hash = models.CharField(
        max_length=16, default="", db_default="", help_text="Hash of what the variant changes."
    )
    variant_of = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="variant_runs",
        help_text="The run of the original that was ordered with this run of a variant.",
    )
    baseline = models.BooleanField(default=False, help_text="Later runs are compared with it.")
    baseline_person = models.TextField(
        default="", db_default="", help_text="Name of the person who made it the baseline; empty: unknown."
    )
    note = models.TextField(default="", help_text="Comment of a person.")
    note_person = models.TextField(
        default="", db_default="", help_text="Name of the person who wrote the note; empty: unknown."
    )
    warnings = models.TextField(default="[]", help_text="JSON: probable mistakes, in words.")

    runtime = models.ForeignKey(
        RuntimeProcess, null=True, on_delete=models.SET_NULL, related_name="eval_runs"
    )
    code_version = models.CharField(max_length=64, default="", help_text="Hash of the agent's files.")
    git_revision = models.TextField(
        default="",
        help_text="Commit of the repository of the agent's folder; with changes, + and a digest of them.",
    )
    adk_version = models.CharField(max_length=32, default="")
    agent_models = models.TextField(default="{}", help_text="JSON: agent → model.")
    model_versions = models.TextField(
        default="{}", db_default="{}", help_text="JSON: model → versions that its responses named."
    )
    packages = models.TextField(
        default="{}",
        db_default="{}",
        help_text="JSON: package → version, of those that the agent's process imported.",
    )
    environment = models.TextField(
        default="{}",
        db_default="{}",
        help_text="JSON: environment variable that the agent read → digest of its value; empty: not set.",
    )

    created_at = models.FloatField()
    queued_at = models.FloatField(default=0.0, help_text="When it was last sent to a runtime.")
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    resumed = models.IntegerField(default=0, help_text="How often it was resumed.")
    last_step_at = models.FloatField(
        null=True,
        help_text="Latest time of its process's stopwatch that is stored. A later start is never before it.",
    )
    limits_from = models.FloatField(
        null=True, help_text="Start from which its limits count: its first, or after a person resumed it."
    )
    limits_seconds = models.FloatField(
        default=0.0, help_text="Seconds before its current start that count for its limit of seconds."
    )
    spent_seconds = models.FloatField(default=0.0, help_text="Seconds that it ran before its current start.")
    stopped_because = models.TextField(default="", help_text="The limit that was reached.")
    error_type = models.TextField(default="")
    error = models.TextField(default="")
    hint = models.TextField(default="")
    traceback = models.TextField(default="")

    revision = models.BigIntegerField(default=0, help_text="Grows with every change: live pages' cursor.")
    total = models.IntegerField(default=0)
    passed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    errors = models.IntegerField(default=0)
    incomplete = models.IntegerField(default=0)
    cancelled = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["evalset"], condition=models.Q(baseline=True), name="eval_run_one_baseline"
            )
        ]
        indexes = [
            models.Index(fields=["evalset", "-created_at"], name="eval_run_newest"),
            models.Index(fields=["status", "created_at"], name="eval_run_by_status"),
        ]

    @property
    def active(self) -> bool:
        """Tell whether something may still change by itself."""
        return self.status in self.ACTIVE

    @property
    def finished(self) -> int:
        """Number of attempts that have ended."""
        return self.passed + self.failed + self.errors + self.incomplete + self.cancelled


class EvalAttempt(models.Model):
    """One repetition of one case of a run."""

    class Status(models.TextChoices):
        """Status of an attempt, or its outcome once it has ended.

        An error is the agent's, or that of something that the case depends on (`attempt_status.NO_OUTCOME_TYPES`).
        Incomplete: no metric failed, but one could not run or none judged.
        """

        PENDING = "pending"
        RUNNING = "running"
        PASSED = "passed"
        FAILED = "failed"
        ERROR = "error"
        INCOMPLETE = "incomplete"
        CANCELLED = "cancelled"

    run = models.ForeignKey(EvalRun, on_delete=models.CASCADE, related_name="attempts")
    case_index = models.IntegerField(help_text="Place of the case in the evalset, from 0.")
    case_id = models.TextField()
    repetition = models.IntegerField(help_text="From 1.")
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    realm = models.TextField()
    session = models.ForeignKey(
        AgentSession, null=True, on_delete=models.SET_NULL, related_name="eval_attempts"
    )
    runtime = models.ForeignKey(
        RuntimeProcess,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        help_text="The process that executes its last try, or did; the queue, while a job is to deliver it.",
    )
    tries = models.IntegerField(default=0, help_text="Number of tries, including the first.")
    earlier = models.TextField(
        default="[]",
        help_text="JSON: tries before: [{try, status, why, error_type, error, started_at, finished_at, realm,"
        " session, total_tokens, cost}].",
    )
    note = models.TextField(default="", help_text="Comment of a person.")
    note_person = models.TextField(
        default="", db_default="", help_text="Name of the person who wrote the note; empty: unknown."
    )
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    stopped_because = models.TextField(default="", help_text="Reason of the cancellation.")
    waits_for = models.TextField(
        default="", help_text="While it runs: which model it waits for before that is asked again, and why."
    )
    waited_seconds = models.FloatField(default=0.0, help_text="Time spent waiting to ask models again.")
    judged_by = models.TextField(
        default="",
        help_text="The metric that judges it by a model or a function of people's own, or did last.",
    )
    total_tokens = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    by_model = models.TextField(
        default="{}", help_text="JSON: {model: {prompt, output, cached, calls}}, tokens and calls."
    )
    cost = models.FloatField(null=True, help_text="In the currency of the price table; null: unknown.")
    model_seconds = models.FloatField(null=True, help_text="Time spent waiting for models; null: unknown.")
    judge = models.TextField(
        default="{}", help_text="JSON: {model: {prompt, output, cached, calls}} of judges."
    )
    differences = models.TextField(
        default="[]", help_text="JSON: replay's requests that differ from the recording."
    )
    fixture_answers = models.TextField(
        default="[]",
        db_default="[]",
        help_text="JSON: tool calls that fixtures answered: [{turn, agent, call, tool, source, number}].",
    )
    error_type = models.TextField(default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")
    cause = models.TextField(
        default="", help_text="Why it did not pass, in words that attempts of one cause share."
    )
    actual = models.TextField(default="[]", help_text="JSON: ADK's invocations as they happened, snake case.")
    revision = models.BigIntegerField(default=0, help_text="The run's revision at the last change.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "case_index", "repetition"], name="eval_attempt_identity")
        ]
        indexes = [
            models.Index(fields=["run", "revision"], name="eval_attempt_changed"),
            models.Index(fields=["run", "status"], name="eval_attempt_by_status"),
            models.Index(
                fields=["runtime"], condition=models.Q(runtime__isnull=False), name="eval_attempt_by_runtime"
            ),
        ]

    @property
    def earlier_tries(self) -> list[dict[str, Any]]:
        """The tries before, see `earlier`."""
        tries: list[dict[str, Any]] = json.loads(self.earlier)
        return tries

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None until it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at

    @property
    def active_seconds(self) -> float | None:
        """Duration in seconds without waits for unavailable models; None until it has ended."""
        return None if self.seconds is None else self.seconds - self.waited_seconds


class MetricResult(models.Model):
    """Result of one metric for one attempt: for one turn, or (invocation null) for the whole attempt."""

    class Status(models.TextChoices):
        """Result of a metric. Informational metrics measure and judge nothing."""

        PASSED = "passed"
        FAILED = "failed"
        NOT_EVALUATED = "not_evaluated", "not evaluated"
        INFORMATIONAL = "informational"

    attempt = models.ForeignKey(EvalAttempt, on_delete=models.CASCADE, related_name="results")
    position = models.IntegerField(help_text="Place of the metric in the run's list.")
    metric = models.TextField()
    invocation = models.IntegerField(null=True, help_text="Turn, from 0; null: overall.")
    score = models.FloatField(null=True)
    threshold = models.FloatField(null=True)
    status = models.CharField(max_length=16, choices=Status)
    reason = models.TextField(default="", help_text="Why it was not evaluated, or what to know of the score.")
    details = models.TextField(default="{}", help_text="JSON: rubric verdicts, token and time breakdowns.")

    class Meta:
        indexes = [models.Index(fields=["attempt", "invocation", "position"], name="metric_of_attempt")]


class Optimisation(models.Model):
    """Search of one of ADK's optimisers for a better instruction of an agent's root. Candidates are variants."""

    class Status(models.TextChoices):
        """Status of an optimisation. Done means that the search and its comparison have ended, not that it gained."""

        RUNNING = "running"
        DONE = "done"
        FAILED = "failed", "could not run"
        CANCELLED = "cancelled"
        STOPPED = "stopped", "stopped at a limit"
        CRASHED = "crashed"

    id = models.CharField(max_length=32, primary_key=True)
    evalset = models.ForeignKey(EvalSet, on_delete=models.CASCADE, related_name="optimisations")
    version = models.ForeignKey(EvalSetVersion, on_delete=models.CASCADE, related_name="optimisations")
    agent = models.TextField(help_text="Name of the root agent.")
    instruction = models.TextField(help_text="The instruction of the root agent in its files.")
    code_version = models.CharField(max_length=64, help_text="Hash of the agent's files.")
    settings = models.TextField(help_text="JSON: see `optimisation.settings.OptimiserSettings`.")
    run_order = models.TextField(
        help_text="JSON: {config, config_source, parallelism, limits, policy, prices} of its runs."
    )
    source = models.CharField(max_length=16, help_text="page or command: who started it.")
    person = models.TextField(help_text="Name of the person who started or last resumed it; empty: unknown.")
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    runtime = models.ForeignKey(
        RuntimeProcess,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The process that carries it out.",
    )
    created_at = models.FloatField()
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    resumed = models.IntegerField(default=0, help_text="How often it was resumed.")
    best_instruction = models.TextField(
        null=True, help_text="What the optimiser found; null: it has not ended."
    )
    comparison = models.ForeignKey(
        EvalRun,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The run of the original on the validation cases, with which the best candidate is compared.",
    )
    error = models.TextField(default="", help_text="Why it could not run, or the limit that stopped it.")
    hint = models.TextField(default="")

    class Meta:
        indexes = [models.Index(fields=["evalset", "-created_at"], name="optimisation_newest")]

    @property
    def active(self) -> bool:
        """Tell whether something may still change by itself."""
        return self.status == self.Status.RUNNING


class OptimisationStep(models.Model):
    """A request of an optimiser and its result: an answer of its model, or the scores of a candidate.

    A resumed optimiser gets the same results in the same order, up to where it was stopped.
    """

    class Kind(models.TextChoices):
        """Request of an optimiser: an answer of its model, or the scores of a candidate."""

        ANSWER = "answer"
        EVALUATION = "evaluation"

    optimisation = models.ForeignKey(Optimisation, on_delete=models.CASCADE, related_name="steps")
    position = models.IntegerField(help_text="From 0.")
    kind = models.CharField(max_length=16, choices=Kind)
    prompt = models.TextField(default="", help_text="The request to the model.")
    answer = models.TextField(default="", help_text="The answer of the model.")
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    thought_tokens = models.IntegerField(default=0)
    cached_tokens = models.IntegerField(default=0)
    total_tokens = models.IntegerField(default=0)
    instruction = models.TextField(default="", help_text="The instruction of the candidate.")
    example_set = models.CharField(max_length=16, default="", help_text="train or validation, as in ADK.")
    case_ids = models.TextField(default="[]", help_text="JSON: the cases of the batch.")
    run = models.ForeignKey(EvalRun, null=True, on_delete=models.SET_NULL, related_name="+")
    scores = models.TextField(default="", help_text="JSON: case → score; empty: its run has not ended.")
    evaluation_data = models.TextField(
        default="", help_text="JSON: case → what happened, for the optimiser's model; empty: not requested."
    )
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["optimisation", "position"], name="optimisation_step_identity")
        ]

    @property
    def part(self) -> str:
        """The cases of an evaluation: training or validation."""
        return "training" if self.example_set == "train" else "validation"


class KnownMetric(models.Model):
    """A metric as a runtime described it: what the run form offers, and what cannot run there and why."""

    name = models.TextField(unique=True)
    data = models.TextField(help_text="JSON: see `engine.metrics.describe_metrics`.")
    adk_version = models.CharField(max_length=32, default="")
    seen_at = models.FloatField(default=0.0)


class ModelRate(models.Model):
    """Use of a model in the last minute by all processes, and until when its service wants no requests.

    Times are those of the store's clock.
    """

    model = models.TextField(primary_key=True)
    requests_per_minute = models.BigIntegerField(null=True, help_text="The limit applied last; null: none.")
    tokens_per_minute = models.BigIntegerField(null=True, help_text="The limit applied last; null: none.")
    minute = models.TextField(default="[]", help_text="JSON: [[second, requests, tokens]], oldest first.")
    blocked_at = models.FloatField(default=0.0)
    blocked_until = models.FloatField(default=0.0, help_text="The service has requested a wait until then.")
    blocked_because = models.TextField(default="", help_text="What the service answered.")
    blocked_by = models.ForeignKey(
        RuntimeProcess,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The process to which the service said so.",
    )


class PlaygroundRun(models.Model):
    """A recorded model call that a person has changed and sent to models again. It belongs to the call's session."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="playground_runs")
    call = models.ForeignKey(ModelCall, on_delete=models.CASCADE, related_name="playground_runs")
    runtime = models.ForeignKey(
        RuntimeProcess,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The process that makes the calls.",
    )
    name = models.TextField(default="")
    person = models.TextField(default="", help_text="Name of the person who started it; empty: unknown.")
    columns = models.TextField(help_text="JSON: see `playground.columns.RequestColumn`.")
    created_at = models.FloatField()


class PlaygroundAnswer(models.Model):
    """The answer to one repetition of a column of a playground run."""

    class Status(models.TextChoices):
        """Status of an answer. Queued and running ones are active."""

        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    ACTIVE = (Status.QUEUED, Status.RUNNING)

    run = models.ForeignKey(PlaygroundRun, on_delete=models.CASCADE, related_name="answers")
    column = models.IntegerField(help_text="Position of its column, from 0.")
    repetition = models.IntegerField(help_text="1, 2, 3 … within its column.")
    status = models.CharField(max_length=16, choices=Status, default=Status.QUEUED)
    model = models.TextField()
    started_at = models.FloatField(null=True)
    first_at = models.FloatField(null=True, help_text="Time of the first chunk or the response.")
    finished_at = models.FloatField(null=True)
    response = models.TextField(
        default="[]", help_text="JSON: the responses; while they are streamed, the text so far."
    )
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    thought_tokens = models.IntegerField(default=0)
    cached_tokens = models.IntegerField(default=0)
    total_tokens = models.IntegerField(default=0)
    error_type = models.TextField(default="")
    error = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "column", "repetition"], name="playground_answer_identity")
        ]
        indexes = [
            models.Index(
                fields=["run"],
                name="playground_answer_active",
                condition=models.Q(status__in=["queued", "running"]),
            )
        ]
