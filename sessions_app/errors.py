"""Errors that say what happened, which rule was broken and what to do. Each carries its HTTP status."""

from __future__ import annotations

from typing import Any, ClassVar


class DevUIError(Exception):
    """An error meant for a person: a message that names the object and the rule, and a hint that names the way out.

    Attributes:
        back: address of the page where one can go on, when the page of the error should lead there.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.back = ""


class BadInput(DevUIError):
    """What the caller sent cannot be meant."""

    status = 400
    code = "bad_input"


class InvalidBody(BadInput):
    """A request body does not have the shape that is asked for. `errors` lists the faults as pydantic does."""

    status = 422
    code = "invalid"

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(
            f"The body has {len(errors)} fault(s).", hint="Send what `detail` asks for; `loc` says where."
        )
        self.errors = errors


class Forbidden(DevUIError):
    """What is asked for is nothing that DevUI does, whoever asks."""

    status = 403
    code = "forbidden"


class NotFound(DevUIError):
    """The object named does not exist."""

    status = 404
    code = "not_found"


class SessionMissing(NotFound):
    """No session has this app, user and id."""

    code = "session_not_found"


class EventMissing(NotFound):
    """The session has no such event."""

    code = "event_not_found"


class InvocationMissing(NotFound):
    """The session has no event of this invocation."""

    code = "invocation_not_found"


class AlreadyExists(DevUIError):
    """The id is taken."""

    status = 409
    code = "already_exists"


class StaleSession(DevUIError):
    """The caller's copy of a session is older than the stored one; nothing was written."""

    status = 409
    code = "stale_session"


class StaleKey(StaleSession):
    """Somebody wrote the key since the caller read it; nothing was written."""

    code = "stale_key"


class DuplicateEvent(DevUIError):
    """Another event of this session has the same id and a different body; nothing was written."""

    status = 409
    code = "duplicate_event"


class SessionBusy(DevUIError):
    """A run is active on the session."""

    status = 409
    code = "session_busy"


class InvocationFinished(DevUIError):
    """An invocation that is to go on has come to its end, or is under way, in a later run."""

    status = 409
    code = "invocation_finished"


class RuntimeUnavailable(DevUIError):
    """The process that runs the agent cannot answer."""

    status = 503
    code = "runtime_unavailable"


class AgentNotLoaded(DevUIError):
    """The agent's own code failed when it was imported; ADK's server answers 500 then, too."""

    code = "agent_not_loaded"


class UpstreamFailed(RuntimeUnavailable):
    """A remote server answered, but with a failure of its own, or with nothing that an ADK server says."""

    status = 502
    code = "upstream_failed"


class ServerStopping(RuntimeUnavailable):
    """The server comes to its end. What it has queued waits for the next one."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("The server is stopping.", hint="Start it again: what is queued goes on then.")


class SchemaTooNew(DevUIError):
    """The store was written by a newer DevUI."""

    status = 500
    code = "schema_too_new"


class ContentMissing(DevUIError):
    """The file beside the store that holds an artifact's content is gone."""

    code = "content_missing"


class StoreFault(DevUIError):
    """The store failed, whatever was asked of it."""

    status = 503
    code = "store_fault"


class StoreFull(StoreFault):
    """The store has no room left; nothing was written."""

    status = 507
    code = "store_full"


class StoreReadOnly(StoreFault):
    """The store can be read but not written; nothing was written."""

    code = "store_read_only"


class StoreUnavailable(StoreFault):
    """The store cannot be reached or read. An append that was under way may have been stored, or not."""

    code = "store_unavailable"


class StoreBusy(StoreFault):
    """Another process has been writing for longer than writes wait; nothing was written."""

    code = "store_busy"


class StoreCorrupt(StoreFault):
    """The store's content is damaged: it has to be restored, and trying again does not help."""

    status = 500
    code = "store_corrupt"
