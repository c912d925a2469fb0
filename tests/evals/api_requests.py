"""Requests of the eval API."""

from __future__ import annotations

API = "/api/v1/evals"


async def post_json(web, path, body, status):
    response = await web.post(f"{API}{path}", body, content_type="application/json")
    assert response.status_code == status, response.content.decode()[:2000]
    return response.json()


async def get_json(web, path, status=200):
    response = await web.get(f"{API}{path}")
    assert response.status_code == status, response.content.decode()[:2000]
    return response.json()
