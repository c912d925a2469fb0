"""ADK's paths that DevUI does not support respond with an explanation."""

from __future__ import annotations

import pytest

ASKED = {"X-ADK-Telemetry-Request": "true"}


async def test_telemetry_path_does_nothing(web):
    assert (await web.get("/config/telemetry")).json() == {"telemetry": False}
    agreed = await web.post("/config/telemetry", json={"telemetry": True}, headers=ASKED)
    assert (agreed.status_code, agreed.json()) == (200, {"telemetry": False})


async def test_an_answer_about_telemetry_needs_its_header_and_its_shape(web):
    refused = await web.post("/config/telemetry", json={"telemetry": True})
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "Forbidden: missing required security header",
    )
    assert (await web.post("/config/telemetry", json={}, headers=ASKED)).status_code == 422


async def test_no_agent_can_be_edited_in_adks_builder(web):
    answer = await web.get("/dev/apps/weather/builder?ts=1")
    assert (answer.status_code, answer.text) == (200, "")


@pytest.mark.parametrize(
    ("method", "path", "way_out"),
    [
        ("POST", "builder/save", "adk web"),
        ("POST", "builder/cancel", "adk web"),
        ("GET", "deploy/defaults", "adk deploy"),
        ("POST", "deploy/cloud_run", "adk deploy"),
        ("POST", "deploy/gke", "adk deploy"),
    ],
)
async def test_build_and_deploy_paths_are_refused_with_hint(web, method, path, way_out):
    answer = await web.request(method, f"/dev/apps/weather/{path}")
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("DevUI does not")
    assert way_out in answer.json()["hint"]
