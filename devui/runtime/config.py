"""The configuration that a runtime process receives when it starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

TOKEN_HEADER = "X-DevUI-Token"  # noqa: S105 - the name of the header


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Values of the flags that `adk web` has, too; an empty value means ADK's default.

    Attributes:
        continue_evals: eval runs of a process that ends go on in another one, instead of being cancelled.
        extra_plugins: plug-ins that every runner gets, as dotted names.
        session_service_uri, artifact_service_uri, memory_service_uri: services in place of DevUI's own.
        default_llm_model: model of agents that name none.
        max_llm_calls: model calls that a run may make; None: ADK's default.
        otel_to_cloud: export telemetry to Google Cloud.
        url_prefix: path below which the server is mounted.
        log_level: level of the process's log.
    """

    extra_plugins: list[str] = field(default_factory=list)
    session_service_uri: str = ""
    artifact_service_uri: str = ""
    memory_service_uri: str = ""
    default_llm_model: str = ""
    max_llm_calls: int | None = None
    otel_to_cloud: bool = False
    url_prefix: str = ""
    log_level: str = "WARNING"
    continue_evals: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Configuration of one runtime process.

    Attributes:
        app_name: the app whose agents it runs.
        agents_dir: absolute path of the agents folder, symbolic links not resolved.
        runtime_id: primary key of its `RuntimeProcess`.
        code_version: hash of the app's code when the process starts; the loaded code may be newer.
        token: required in the header `X-DevUI-Token` of every request.
    """

    app_name: str
    agents_dir: str
    runtime_id: str
    code_version: str
    token: str
    options: RuntimeOptions = field(default_factory=RuntimeOptions)

    def to_line(self) -> bytes:
        """Return the config as one line of JSON, to be written to the lifeline."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> RuntimeConfig:
        """Parse a line that `to_line` returned."""
        values = json.loads(line)
        return cls(**{**values, "options": RuntimeOptions(**values["options"])})
