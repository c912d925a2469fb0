"""Errors with a message, a hint and an HTTP status."""

from __future__ import annotations

from typing import Any, ClassVar


class DevUIError(Exception):
    """An error for users: the message says what happened and why, the hint what to do.

    Attributes:
        back: address that the error page links to, if any.
        retry_after: seconds after which the request may succeed; 0: unknown.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.back = ""
        self.retry_after = 0


class BadInput(DevUIError):
    """The request is invalid."""

    status = 400
    code = "bad_input"


class TooLarge(DevUIError):
    """The request has more than its receiver accepts."""

    status = 413
    code = "too_large"


class UnsupportedMedia(DevUIError):
    """The request has a content type or an encoding that its receiver does not read."""

    status = 415
    code = "unsupported_media"


class InvalidBody(BadInput):
    """A request body does not match its schema. `errors` lists the faults as pydantic does."""

    status = 422
    code = "invalid"

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(
            f"The body has {len(errors)} fault(s).", hint="Send what `detail` asks for; `loc` says where."
        )
        self.errors = errors


class Forbidden(DevUIError):
    """DevUI does not allow the request, whoever makes it."""

    status = 403
    code = "forbidden"


class NotFound(DevUIError):
    """The object does not exist."""

    status = 404
    code = "not_found"


class SessionMissing(NotFound):
    """No session has this app, user and id."""

    code = "session_not_found"


class EventMissing(NotFound):
    """The session has no such event."""

    code = "event_not_found"


class InvocationMissing(NotFound):
    """The session has no such invocation."""

    code = "invocation_not_found"


class AlreadyExists(DevUIError):
    """The id is already in use."""

    status = 409
    code = "already_exists"


class StaleSession(DevUIError):
    """The caller's copy of a session is older than the stored one; nothing was written."""

    status = 409
    code = "stale_session"


class StaleKey(StaleSession):
    """The key has changed since the caller read it; nothing was written."""

    code = "stale_key"


class DuplicateEvent(DevUIError):
    """The session has a different event with the same id; nothing was written."""

    status = 409
    code = "duplicate_event"


class SessionBusy(DevUIError):
    """A run is active on the session."""

    status = 409
    code = "session_busy"


class InvocationFinished(DevUIError):
    """The invocation to resume has finished, or is active in a later run."""

    status = 409
    code = "invocation_finished"


class RuntimeUnavailable(DevUIError):
    """The runtime of the agent does not respond."""

    status = 503
    code = "runtime_unavailable"


class AgentNotLoaded(DevUIError):
    """The agent's code failed on import. The status is 500, as in ADK's server."""

    code = "agent_not_loaded"


class UpstreamFailed(RuntimeUnavailable):
    """A remote server responded with an error, or not like an ADK server."""

    status = 502
    code = "upstream_failed"


class ServerStopping(RuntimeUnavailable):
    """The server is stopping. Its queued runs wait for the next server."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("The server is stopping.", hint="Start it again. Queued runs continue then.")


class ContentMissing(DevUIError):
    """The file with an artifact's content is missing."""

    code = "content_missing"


class StoreFault(DevUIError):
    """The store failed."""

    status = 503
    code = "store_fault"


class SchemaTooNew(StoreFault):
    """The store was written by a newer DevUI."""

    code = "schema_too_new"


class SchemaTooOld(StoreFault):
    """The store was written by a development version whose migrations this DevUI does not have."""

    code = "schema_too_old"


class StoreReplaced(StoreFault):
    """The store's file was removed or replaced while this process ran; nothing was written."""

    code = "store_replaced"


class StoreFull(StoreFault):
    """The store has no space left; nothing was written."""

    status = 507
    code = "store_full"


class StoreReadOnly(StoreFault):
    """The store is read-only; nothing was written."""

    code = "store_read_only"


class StoreUnavailable(StoreFault):
    """The store cannot be reached or read, or lacks migrations. An append in progress may have been stored or not."""

    code = "store_unavailable"


class StoreBusy(StoreFault):
    """Another process held the write lock for too long; nothing was written."""

    code = "store_busy"


class StoreCorrupt(StoreFault):
    """The store is damaged and must be restored; retrying does not help."""

    status = 500
    code = "store_corrupt"
