"""Save a variant to the files of its agent: shown first, written as shown, and what is code is left to a person."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from evals_app.files.atomic_writes import FileChanged
from evals_app.variants.agent_files import CONFIG, MAX_BYTES, plan_changes, write_changes
from evals_app.variants.variant import Variant
from tests.evals import stored_runs
from tests.evals.stored_runs import passing
from tests.pages.html import parse

ROOT = Path(__file__).parents[2]

YAML_AGENT = """\
# Ours.
name: counter
model: gemini-2.5-flash   # fast
instruction: |
  Count.
generate_content_config:
  temperature: 0.5
  http_options: {timeout: 1000}
"""


@pytest.fixture
def agent_file(tmp_path, settings, db) -> Path:
    """The file of an agent `counter`, a copy of the shop."""
    shutil.copytree(ROOT / "examples/agents/shop", tmp_path / "counter")
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    file = tmp_path / "counter" / "agent.py"
    file.write_text(file.read_text().replace('name="shop"', 'name="counter"'))
    return file


def create_variant_run(**fields: object) -> str:
    """Store a run of a variant of `counter`; return the address of the page that saves it."""
    variant = Variant("gold for all", "", {"counter": fields})
    run = stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": [passing()]})
    run.variant, run.variant_hash = variant.as_json(), variant.hash
    run.save()
    assert run.evalset.app_name == "counter"
    return f"/evals/runs/{run.pk}/variant/save/"


def get(client, url, status=200):
    response = client.get(url)
    assert response.status_code == status
    return parse(response.content)


def read_mark(page) -> str:
    return page.one("button", name="seen").attrs["value"]


def test_changes_are_shown_and_then_written_as_shown(client, agent_file):
    before = agent_file.read_text()
    url = create_variant_run(instruction="Be kind.\n\ntier: gold\n")
    page = get(client, url)
    assert "tier: gold" in page.one(css="file-diff").text
    assert agent_file.read_text() == before
    response = client.post(url, {"seen": read_mark(page)})
    assert response.status_code == 302
    start, end = before.index("You are the help desk"), before.index('"""\n\n\ndef find_customer')
    assert agent_file.read_text() == f"{before[:start]}Be kind.\n\ntier: gold\n{before[end:]}"
    saved = get(client, response.headers["Location"])
    assert "Saved." in saved.one("form").text
    assert not saved.all("button", name="seen")


def test_what_is_code_is_offered_to_copy_with_its_line(client, agent_file):
    page = get(
        client,
        create_variant_run(model="gemini-2.5-pro", tools={"remove": ["find_customer"]}, output_key="said"),
    )
    text = page.one("section").text
    line = agent_file.read_text().split('name="counter"')[0].count("\n")
    assert f"model of counter: its value is an expression. counter/agent.py:{line}" in " ".join(text.split())
    assert "tools of counter: its value is code." in " ".join(text.split())
    assert "output_key of counter: the agent's code does not set it by name." in " ".join(text.split())
    assert [block.text for block in page.all("pre", css="code-block")] == [
        "gemini-2.5-pro",
        "tools: remove: - find_customer",
        "said",
    ]
    assert not page.all("button", name="seen")


def test_file_that_changed_since_is_shown_again_and_not_written(client, agent_file):
    url = create_variant_run(instruction="tier: gold\n")
    mark = read_mark(get(client, url))
    agent_file.write_text(agent_file.read_text().replace("Delivery costs 5", "Delivery costs 6"))
    response = client.post(url, {"seen": mark})
    assert response.status_code == 409
    page = parse(response.content)
    assert "changed since" in page.one("form").text
    assert "Delivery costs 6" in agent_file.read_text()
    assert client.post(url, {"seen": read_mark(page)}).status_code == 302
    assert "You are the help desk" not in agent_file.read_text()


def test_fields_of_a_yaml_agent_are_saved_with_its_comments(client, agent_file):
    agent_file.unlink()
    file = agent_file.with_name("root_agent.yaml")
    file.write_text(YAML_AGENT)
    url = create_variant_run(
        model="gemini-2.5-pro", generate_content_config={"temperature": 0}, global_instruction="Be kind."
    )
    page = get(client, url)
    assert "global_instruction of counter: YAML agents do not have it." in " ".join(
        page.one("form").text.split()
    )
    assert client.post(url, {"seen": read_mark(page)}).status_code == 302
    text = file.read_text()
    assert text.startswith(
        "# Ours.\nname: counter\nmodel: gemini-2.5-pro   # fast\ninstruction: |\n  Count.\n"
    )
    assert yaml.safe_load(text)["generate_content_config"] == {
        "temperature": 0,
        "http_options": {"timeout": 1000},
    }


def test_two_definitions_are_left_to_a_person(client, agent_file):
    shutil.copy(agent_file, agent_file.with_name("other.py"))
    page = get(client, create_variant_run(instruction="x"))
    assert "2 places in the agent's files have the name 'counter'" in page.one("form").text


def test_link_out_of_the_folder_is_not_followed(client, agent_file, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "agent.py"
    shutil.move(agent_file, outside)
    os.symlink(outside, agent_file)
    url = create_variant_run(instruction="x")
    page = get(client, url)
    assert "no file of the agent creates it by its name" in page.one("form").text
    before = outside.read_text()
    assert client.post(url, {"seen": "0"}).status_code == 409
    assert outside.read_text() == before


def test_variable_that_another_file_names_is_left_to_a_person(client, agent_file):
    agent_file.with_name("sub.py").write_text("from .agent import INSTRUCTION\n")
    page = get(client, create_variant_run(instruction="x"))
    assert "its value is INSTRUCTION, which another file names, too" in page.one("form").text


def test_nothing_is_written_if_one_of_two_files_has_changed(client, agent_file):
    helper = agent_file.with_name("helper.yaml")
    helper.write_text("name: helper\ninstruction: Help.\n")
    variant = Variant("both", "", {"counter": {"instruction": "x"}, "helper": {"instruction": "y"}})
    plan = plan_changes("counter", variant)
    assert [change.shown_as for change in plan.changes] == ["counter/agent.py", "counter/helper.yaml"]
    helper.write_text("name: helper\ninstruction: Help!\n")
    before = agent_file.read_text()
    with pytest.raises(FileChanged):
        write_changes(plan)
    assert agent_file.read_text() == before


@pytest.mark.parametrize("config", ["foo", "[1]", "{temperature: 1}"])
def test_yaml_agent_with_any_config_can_be_saved(agent_file, config):
    agent_file.with_name("helper.yaml").write_text(f"name: helper\ngenerate_content_config: {config}\n")
    plan = plan_changes("counter", Variant("a", "", {"helper": {CONFIG: {"temperature": 0}}}))
    assert yaml.safe_load(plan.changes[0].after)[CONFIG] == {"temperature": 0}


def test_too_much_code_is_refused_before_it_is_parsed(client, agent_file):
    agent_file.with_name("data.py").write_text("a = 1  #" + "x" * MAX_BYTES)
    page = get(client, create_variant_run(instruction="x"), status=422)
    assert "bytes of code" in page.one("form").text


def test_run_of_the_original_and_servers_without_files_are_refused(client, agent_file, settings):
    run = stored_runs.run(stored_runs.version(stored_runs.cases("b")), {"b": [passing()]})
    response = client.get(f"/evals/runs/{run.pk}/variant/save/")
    assert response.status_code == 404
    assert "has no variant" in response.content.decode()
    settings.DEVUI_AGENTS_DIR = ""
    page = get(client, create_variant_run(instruction="x"), status=422)
    assert "no folder of agents" in page.one("form").text
