"""Requests of the eval pages."""

from __future__ import annotations

from tests.evals.conftest import wait_until_settled
from tests.pages.html import parse


async def get_page(web, url, status=200, **headers):
    response = await web.get(url, headers=headers)
    assert response.status_code == status, response.content.decode()[:3000]
    return parse(response.content)


async def start_run(web, name="smoke", status=302, settle=True, **data):
    fields = {
        "metric": ["tool_trajectory_avg_score", "response_match_score"],
        "threshold:tool_trajectory_avg_score": "1",
        "threshold:response_match_score": "0.5",
        "num_runs": "1",
        "parallelism": "2",
        **data,
    }
    response = await web.post(f"/evals/counter/{name}/", fields)
    assert response.status_code == status, response.content.decode()[:3000]
    if settle:
        await wait_until_settled()
    return response
