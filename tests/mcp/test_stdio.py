"""`devui mcp`: the tools over stdin and stdout, and a coding agent's way from a failed case to its cause."""

from __future__ import annotations

import json
import subprocess
import sys

from mcp import Client

from devui.mcp.read_tools import READ_TOOLS
from devui.mcp.write_tools import WRITE_TOOLS
from tests.mcp.conftest import AGENTS, call, refusal


async def test_cause_of_a_failed_case_is_found_and_a_case_drafted(stdio_server):
    async with Client(stdio_server()) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            tool.__name__ for tool in READ_TOOLS
        }
        runs = (await call(client, "list_eval_runs", app="shop"))["untrusted_data"]
        corrected, failed = runs
        assert failed["counts"]["failed"] == 5
        page = await call(client, "list_attempts", run=failed["id"], status="failed", limit=2)
        attempts = page["untrusted_data"]
        rest = await call(
            client, "list_attempts", run=failed["id"], status="failed", after=page["next_cursor"]
        )
        assert len(attempts) + len(rest["untrusted_data"]) == 5

        why = (await call(client, "explain_attempt", attempt=attempts[0]["id"]))["untrusted_data"]
        session = why["session"]
        expected = why["expected"]["conversation"][1]["final_response"]["parts"][0]["text"]
        actual = why["actual"][1]["final_response"]["parts"][0]["text"]
        assert (expected, actual) == (
            "Delivery is free for you.",
            "Delivery costs 5 euros for standard members.",
        )
        changes = (await call(client, "find_key_writers", session=session, key="tier"))["untrusted_data"][
            "changes"
        ]
        assert [(change["value"], change["writer"]["name"]) for change in changes[:2]] == [
            ("standard", "set_defaults"),
            ("gold", "find_customer"),
        ]
        calls = (await call(client, "list_model_calls", session=session))["untrusted_data"]
        requests = await call(client, "compare_model_requests", session=session, call=calls[0]["id"])
        instruction = requests["untrusted_data"]["differences"]["instruction"]
        assert "tier: gold" in instruction["recorded"]
        assert "tier: standard" in instruction["now"]
        assert (await call(client, "read_model_call", session=session, call=calls[0]["id"]))["untrusted_data"]
        assert "first of its agent" in await refusal(
            client, "compare_model_requests", session=session, call=calls[-1]["id"]
        )

        verdict = await call(client, "compare_eval_runs", run=corrected["id"], against=failed["id"])
        assert "gold_fails_on_purpose" in json.dumps(verdict["untrusted_data"])
        draft = (await call(client, "draft_case", session=session))["untrusted_data"]
        assert draft["conversation"][1]["final_response"]["parts"][0]["text"] == actual


async def test_with_write_an_agent_is_asked(stdio_server):
    async with Client(stdio_server("--write")) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {tool.__name__ for tool in (*READ_TOOLS, *WRITE_TOOLS)}
        assert "Neither a session nor an app" in await refusal(client, "send_message", text="Hello")
        answer = await call(client, "send_message", text="My email is ada@example.com", app="shop")
        told = answer["untrusted_data"]
        assert told["run"]["status"] == "done"
        assert "You are a gold member" in json.dumps(told["events"])
        log = await call(
            client,
            "read_log",
            session=told["session"],
            invocation=told["events"][0]["event"]["invocationId"],
        )
        assert log["untrusted_data"] == []


def run_mcp(
    environment: dict[str, str], *arguments: str, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `devui mcp` until its stdin ends."""
    command = [sys.executable, "-m", "devui", "mcp", *arguments]
    return subprocess.run(
        command, env=environment, cwd=cwd, input="", capture_output=True, text=True, check=False
    )


def test_server_ends_with_its_client_and_prints_only_messages(demo_environment):
    ended = run_mcp(demo_environment, "--agents", str(AGENTS))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_store_with_a_login_needs_a_token(demo_environment, tmp_path):
    environment = {**demo_environment, "DATABASE_URL": f"sqlite:///{tmp_path / 'own.sqlite3'}"}
    login = [sys.executable, "-m", "devui", "login"]
    subprocess.run(login, env=environment, input="correct horse battery\n", text=True, check=True)
    made = subprocess.run(
        [sys.executable, "-m", "devui", "login", "--token"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    refused = run_mcp(environment, "--agents", str(AGENTS))
    assert refused.returncode == 2
    assert "Set DEVUI_TOKEN to a token" in refused.stderr
    token = made.stdout.split()[2]
    accepted = run_mcp({**environment, "DEVUI_TOKEN": token}, "--agents", str(AGENTS))
    assert (accepted.returncode, accepted.stderr) == (0, "")


def test_missing_folder_of_agents_is_named(demo_environment):
    refused = run_mcp(demo_environment, "--agents", "/no/such/folder")
    assert refused.returncode == 2
    assert "/no/such/folder" in refused.stderr
