"""Pages that create and edit evalsets, without scripts."""

from __future__ import annotations

import errno
import json
import os
import threading

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.http import urlencode

from evals_app.cases import uploads
from evals_app.files import library, parsing, plain_yaml
from evals_app.models import EvalSet
from evals_app.views import case_editor, versions
from sessions_app.store.database import units_of_work
from tests.evals.builders import LEGACY, case, evalset, text, turn, write
from tests.evals.form_filling import Browser
from tests.hostile_ids import HOSTILE_IDS

SET = "/evals/counter/set/"
TWO = evalset(
    case("one", turn("hi", "yo", [{"name": "f", "args": {"x": 1}}]), ours=1),
    case("two", turn("bye")),
    eval_set_id="set",
)


@pytest.fixture
def path(folder):
    return write(folder.path, "set.evalset.json", json.dumps(TWO, indent=2) + "\n")


@pytest.fixture
def browser(web, path):
    return Browser(web)


async def test_case_is_edited_reviewed_and_saved(browser, path):
    before = path.read_text()
    await browser.get(f"{SET}case/?id=one")
    page = await browser.send("review", turns__0__answer="good day")
    assert browser.diff() == (['"text": "yo"'], ['"text": "good day"'])
    assert path.read_text() == before
    page = await browser.save()
    assert path.read_text() == before.replace('"yo"', '"good day"')
    assert "Saved case one to the file." in page.text
    version = await units_of_work.read(lambda: EvalSet.objects.get().versions.latest("created_at").origin)
    assert version == "page"


async def test_the_state_that_a_case_expects_is_shown(web, folder):
    states = {"final_session_state": {"n": 2, "user:x": 1}, "devui_turn_states": [{"n": 1}]}
    write(folder.path, "set.evalset.json", evalset(case("one", turn("hi"), **states)))
    case_text = (await Browser(web).get(f"{SET}?case=0")).one(id="case-body-0").text
    assert "is to end with 2 state keys" in case_text
    assert "expects state after its turns" in case_text
    assert "ADK does not use the field" not in case_text


async def test_a_case_of_many_turns_is_edited_like_any_other(browser, path):
    calls = [{"name": "f", "args": {"n": n}} for n in range(3)]
    long = case("one", *[turn(f"question {n}", "yo", calls) for n in range(120)])
    path.write_text(json.dumps(evalset(long)))
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__119__answer="the last")
    await browser.save()
    assert json.loads(path.read_text())["eval_cases"][0]["conversation"][119]["final_response"] == text(
        "the last", "model"
    )


async def test_review_reads_large_file_and_its_new_text_once(web, folder, monkeypatch):
    path = write(folder.path, "set.evalset.yaml", plain_yaml.dump_yaml(TWO))
    browser = Browser(web)
    await browser.get(f"{SET}case/?id=one")
    read = []
    load = plain_yaml.load_yaml
    monkeypatch.setattr(plain_yaml, "load_yaml", lambda text: read.append(text) or load(text))
    await browser.send("review", turns__0__answer="good day")
    before = path.read_text()
    assert read == [before, before.replace("yo", "good day")]
    read.clear()
    await browser.save()
    assert read == [before, path.read_text()]


async def test_rows_are_added_without_scripts_and_nothing_is_written_by_it(browser, path):
    before = path.read_bytes()
    await browser.get(f"{SET}case/?id=two")
    await browser.send("add:turns.0.calls")
    page = await browser.send("add:turns.0.calls", turns__0__calls__0__name="get_weather")
    assert page.one("input", name="turns.0.calls.0.name").attrs["value"] == "get_weather"
    page = await browser.send("up:turns.0.calls.1", turns__0__calls__1__name="first")
    assert page.one("input", name="turns.0.calls.0.name").attrs["value"] == "first"
    assert path.read_bytes() == before


async def test_invalid_field_shows_error_and_keeps_input(browser, path):
    before = path.read_bytes()
    await browser.get(f"{SET}case/?id=one")
    page = await browser.send("review", status=422, state='{"a": }', turns__0__user="")
    assert "line 1, column 7" in page.one(id="field-state-note").text
    assert "What does the user say" in page.one(id="field-turns-0-user-note").text
    assert page.one("textarea", name="state").text == '{"a": }'
    assert path.read_bytes() == before
    links = {link.text: link.attrs["href"] for link in page.one(css="notice-danger").all("a")}
    assert links == {"Turn 1, what the user says": "#field-turns-0-user", "State": "#field-state"}


async def test_case_shows_intermediate_messages_and_turn_rubrics(browser, path):
    judged = {
        **turn("hi", "hello"),
        "intermediate_data": {"intermediate_responses": [["helper", [{"text": "one moment"}]]]},
        "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "It greets."}}],
    }
    path.write_text(json.dumps(evalset(case("one", judged), eval_set_id="set")))
    case_text = (await browser.get(f"{SET}?case=0")).one(id="case-body-0").text
    assert "helper one moment" in case_text
    assert "1 rubric: It greets." in case_text


async def test_new_rubric_has_a_type_as_metrics_require_one(browser):
    await browser.get(f"{SET}case/?id=one")
    page = await browser.send("add:turns.0.rubrics")
    options = page.one("select", name="turns.0.rubrics.0.type").all("option")
    assert [option.attrs["value"] for option in options if "selected" in option.attrs] == [
        "FINAL_RESPONSE_QUALITY"
    ]


async def test_saved_text_is_the_reviewed_text(browser, path):
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__0__answer="good day")
    page = await browser.save(status=200, turns__0__answer="good night")
    assert "The change differs from the one shown before." in page.text
    assert "good" not in path.read_text()
    await browser.save()
    assert "good night" in path.read_text()


async def test_concurrent_change_of_the_file_is_kept_and_reported(browser, path):
    await browser.get(f"{SET}case/?id=one")
    path.write_text(path.read_text().replace('"bye"', '"goodbye"'))
    page = await browser.send("review", turns__0__answer="good day")
    assert "The file has changed since." in page.text
    await browser.save()
    assert '"goodbye"' in path.read_text()
    assert '"good day"' in path.read_text()


async def test_review_warns_that_others_changed_the_case(browser, path):
    await browser.get(f"{SET}case/?id=one")
    path.write_text(path.read_text().replace('"yo"', '"theirs"'))
    page = await browser.send("review", turns__0__answer="mine")
    assert "This case was changed or removed" in page.one(css="notice-danger").text
    assert browser.diff() == (['"text": "theirs"'], ['"text": "mine"'])
    path.write_text(path.read_text().replace("theirs", "theirs again"))
    await browser.save(status=200)
    assert browser.diff() == (['"text": "theirs again"'], ['"text": "mine"'])
    assert "theirs again" in path.read_text()
    await browser.save()
    assert '"mine"' in path.read_text()


async def test_concurrently_removed_case_is_restored_only_on_request(browser, path):
    await browser.get(f"{SET}case/?id=one")
    path.write_text(json.dumps(evalset(TWO["eval_cases"][1], eval_set_id="set")))
    page = await browser.send("review", turns__0__answer="mine")
    assert "This case was changed or removed" in page.one(css="notice-danger").text
    await browser.save()
    assert [case["eval_id"] for case in json.loads(path.read_text())["eval_cases"]] == ["two", "one"]


async def test_older_file_is_converted_by_a_change(browser, folder):
    path = write(folder.path, "old.test.json", [*LEGACY, {"name": "gone", "data": []}])
    page = await browser.get("/evals/counter/old.test/change/?action=remove&id=gone")
    assert "converted to ADK's current format" in page.text
    await browser.save()
    assert [case["eval_id"] for case in json.loads(path.read_text())["eval_cases"]] == ["old"]


async def test_a_save_between_looking_and_saving_is_seen(browser, path):
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__0__answer="mine")
    path.write_text(path.read_text().replace('"bye"', '"goodbye"'))
    page = await browser.save(status=200)
    assert "The change differs from the one shown before." in page.text
    assert '"mine"' not in path.read_text()


async def test_case_is_created_copied_and_refused_with_existing_id(browser, path):
    await browser.get(f"{SET}case/")
    await browser.send("review", case_id="three", turns__0__user="hello")
    await browser.save()
    await browser.get(f"{SET}case/?copy=one")
    assert browser.page.one("input", name="case_id").attrs["value"] == "one-2"
    await browser.send("review")
    await browser.save()
    cases = json.loads(path.read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["one", "two", "three", "one-2"]
    assert cases[2]["conversation"] == [{"user_content": text("hello")}]
    assert cases[3] == {**cases[0], "eval_id": "one-2"}
    await browser.get(f"{SET}case/?copy=one")
    page = await browser.send("review", status=409, case_id="two")
    assert "has a case 'two' already" in page.text


async def test_invalid_json_of_a_case_names_line_and_column(browser, path):
    await browser.get(f"{SET}case/?id=two&view=json")
    page = await browser.send("review", status=422, raw='{"eval_id": "two",\n "conversation": [{}]}')
    assert page.one(css="notice-danger").one("a", href="#field-raw").text == "JSON"
    note_text = page.one(id="field-raw-note").text
    assert note_text == "line 2, column 19: conversation[0].user_content: is required"
    camel = {"evalId": "two", "conversation": [{"userContent": text("ciao")}], "new": {"a": 1}}
    await browser.send("review", raw=json.dumps(camel))
    await browser.save()
    assert json.loads(path.read_text())["eval_cases"][1] == {
        "eval_id": "two",
        "conversation": [{"user_content": text("ciao")}],
        "new": {"a": 1},
    }


async def test_a_case_is_removed(browser, path):
    await browser.get(f"{SET}change/?action=remove&id=two&at=1")
    await browser.save()
    assert [case["eval_id"] for case in json.loads(path.read_text())["eval_cases"]] == ["one"]
    await browser.get(f"{SET}change/?action=remove&id=two", status=404)
    await browser.get(f"{SET}change/?action=explode", status=400)


async def test_evalset_is_created_and_its_file_removed(browser, folder):
    await browser.get("/evals/new/")
    response = await browser.web.post("/evals/new/", {"app": "counter", "id": "fresh", "form": "yaml"})
    assert response.url == "/evals/counter/fresh/"
    path = folder.path / "fresh.evalset.yaml"
    assert "eval_cases: []" in path.read_text()
    assert "No cases yet" in (await browser.get(response.url)).text
    await browser.web.post("/evals/counter/fresh/delete/")
    assert not path.exists()


@pytest.mark.parametrize("address", ["/evals/new/", "/evals/upload/"])
async def test_server_without_agents_folder_explains_why_no_file_is_created(browser, settings, address):
    assert "no agent has its folder on this server" not in (await browser.get(address)).text
    settings.DEVUI_AGENTS_DIR = ""
    assert "no agent has its folder on this server" in (await browser.get(address)).text


async def test_an_uploaded_file_is_read_once_and_while_others_write(web, folder, monkeypatch):
    threads = []

    def read_in_a_thread(*args):
        threads.append(threading.current_thread().name)
        return read_document(*args)

    read_document = parsing.load_document
    for place in (parsing, uploads):
        monkeypatch.setattr(place, "load_document", read_in_a_thread)
    await upload(web, ("big.evalset.yaml", b"eval_set_id: y\neval_cases: []\n"))
    assert [name.startswith("devui-read") for name in threads] == [True]


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", ".hidden", "x" * 101, "set"])
async def test_hostile_or_existing_evalset_name_is_refused(browser, folder, name):
    before = sorted(os.listdir(folder.path))
    response = await browser.web.post("/evals/new/", {"app": "counter", "id": name})
    assert response.status_code == 400
    assert sorted(os.listdir(folder.path)) == before


async def upload(web, *files, app="counter"):
    files_sent = [SimpleUploadedFile(name, content) for name, content in files]
    return await web.post("/evals/upload/", {"app": app, "file": files_sent})


async def test_files_of_every_format_are_uploaded_unchanged(web, folder):
    yaml = b"# ours\neval_set_id: y\neval_cases: []\n"
    scenarios = json.dumps({"scenarios": [{"startingPrompt": "hi", "conversationPlan": "leave"}]})
    config = json.dumps({"criteria": {"response_match_score": 0.5}})
    response = await upload(
        web,
        ("plain.json", json.dumps(TWO).encode()),
        ("y.evalset.yaml", yaml),
        ("flat.test.json", b'[{"query": "q"}]'),
        ("people.json", scenarios.encode()),
        ("test_config.json", config.encode()),
    )
    assert response.status_code == 200
    assert json.loads((folder.path / "plain.evalset.json").read_text()) == TWO
    assert (folder.path / "y.evalset.yaml").read_bytes() == yaml
    assert (folder.path / "flat.test.json").exists()
    assert json.loads((folder.path / "people.evalset.json").read_text())["eval_cases"] == [
        {
            "eval_id": "scenario-1",
            "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "leave"},
        }
    ]
    assert (folder.path / "test_config.json").read_text() == config


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_a_file_that_powershell_wrote_is_uploaded_as_utf_8(web, folder, encoding):
    response = await upload(web, ("plain.json", json.dumps(TWO).encode(encoding)))
    assert response.status_code == 302
    assert json.loads((folder.path / "plain.evalset.json").read_bytes().decode()) == TWO


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("deep.yaml", b"eval_set_id: s\neval_cases: []\nx: " + b"[" * 90_000, "nested too deeply"),
        ("nul.json", json.dumps(evalset(case("a\0", turn("hi")))).encode(), "holds a NUL"),
        ("set.evalset.json", b'{"eval_set_id": "set", "eval_cases": []}', "already exists"),
        ("broken.json", b'{\n "eval_set_id": 3, "eval_cases": []}', ":2:2"),
        ("broken.yaml", b"eval_set_id: [", "is no YAML"),
        ("people.json", b'{"scenarios": [{"startingPrompt": 3}]}', "scenarios[0]"),
        ("image.json", b"\x89PNG\xff", "is not UTF-8"),
        ("a b.json", b'{"eval_set_id": "x", "eval_cases": []}', "Invalid Eval Set ID"),
        (".evalset.json", b'{"eval_set_id": "x", "eval_cases": []}', "no name"),
        ("test_config.json", b'{"criteria": 3}', "criteria"),
        ("bomb.yaml", b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "eval_set_id"),
        ("deep.json", b"[" * 100_000, "cannot be read"),
        ("agent.py", b"import os", "no JSON"),
    ],
)
async def test_an_upload_that_cannot_be_used_is_refused_and_leaves_nothing(
    web, folder, path, name, content, message
):
    before = {entry.name: entry.read_bytes() for entry in folder.path.iterdir()}
    response = await upload(web, (name, content))
    assert response.status_code == 400
    assert message in response.content.decode()
    assert {entry.name: entry.read_bytes() for entry in folder.path.iterdir()} == before


async def test_an_upload_is_put_nowhere_else(web, folder, tmp_path):
    body = (
        b'--x\r\nContent-Disposition: form-data; name="app"\r\n\r\ncounter\r\n--x\r\n'
        b'Content-Disposition: form-data; name="file"; filename="..\\\\..\\\\up.evalset.json"\r\n\r\n'
        b'{"eval_set_id": "x", "eval_cases": []}\r\n--x--\r\n'
    )
    await web.post("/evals/upload/", body, content_type="multipart/form-data; boundary=x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["counter"]
    document = b'{"eval_set_id": "x", "eval_cases": []}'
    assert (await upload(web, ("a.json", document), app="../counter")).status_code == 404


async def test_uploaded_cases_with_existing_ids_get_numbers(browser, path):
    await browser.get(f"{SET}change/?action=add")
    file = SimpleUploadedFile(
        "more.yaml", b"eval_set_id: x\neval_cases:\n- {eval_id: one, conversation: []}\n"
    )
    await browser.send(files={"file": file})
    await browser.save()
    assert [case["eval_id"] for case in json.loads(path.read_text())["eval_cases"]] == ["one", "two", "one-2"]


async def test_versions_show_changes_and_authors(browser, path):
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__0__answer="good day")
    await browser.save()
    page = await browser.get(f"{SET}versions/")
    rows = page.one("tbody").all("tr")
    assert ["1 changed" in row.text for row in rows] == [True, False]
    show = rows[0].one("a", css="small").attrs["href"]
    page = await browser.get(f"{SET}versions/{show}")
    assert browser.diff() == (['"text": "yo"'], ['"text": "good day"'])
    assert not (await browser.get(f"{SET}versions/?case=two")).all("a", href=show)
    back = page.one(css="version-diff").one("a").attrs["href"]
    await browser.get(back)
    await browser.send("review")
    assert browser.diff() == (['"text": "good day"'], ['"text": "yo"'])
    await browser.save()
    assert json.loads(path.read_text()) == TWO
    await browser.get(f"{SET}versions/?from=1&to=x", status=400)
    await browser.get(f"{SET}versions/?from=999&to=998", status=404)


async def test_cases_of_any_id_are_opened_and_edited(web, folder):
    names = [hostile_id for hostile_id in HOSTILE_IDS if hostile_id == hostile_id.strip()]
    path = write(folder.path, "set.evalset.json", evalset(*[case(name, turn("b")) for name in names]))
    browser = Browser(web)
    for name in names:
        page = await browser.get(f"{SET}case/?{urlencode({'id': name})}")
        assert page.one("textarea", name="turns.0.user").text == "b", name
        await browser.send("review", turns__0__user="c")
        assert len(browser.diff()[0]) == len(browser.diff()[1]) == 1, name
    await browser.save()
    assert json.loads(path.read_text())["eval_cases"] == [
        *[case(name, turn("b")) for name in names[:-1]],
        case(names[-1], turn("c")),
    ]


async def test_cases_with_the_same_id_are_distinguished_by_position(web, folder):
    path = write(folder.path, "set.evalset.json", evalset(case("x", turn("a")), case("x", turn("b"))))
    browser = Browser(web)
    await browser.get(f"{SET}case/?id=x&at=1")
    await browser.send("review", turns__0__user="c")
    await browser.save()
    assert json.loads(path.read_text())["eval_cases"] == [case("x", turn("a")), case("x", turn("c"))]


async def test_a_file_outside_of_the_agents_folder_is_read_and_never_written(web, folder, tmp_path_factory):
    far = write(tmp_path_factory.mktemp("far"), "far.evalset.json", json.dumps(TWO))
    (folder.path / "set.evalset.json").symlink_to(far)
    browser = Browser(web)
    await browser.get(f"{SET}case/?id=one")
    page = await browser.send("review", status=400, turns__0__user="c")
    assert "outside the folder of agents" in page.text
    assert json.loads(far.read_text()) == TWO


async def test_full_disk_is_reported_and_file_stays_intact(browser, path, monkeypatch):
    before = path.read_bytes()
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__0__answer="x")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    page = await browser.save(status=400)
    assert "cannot be written: No space left on device" in page.text
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []


async def test_file_keeps_its_permissions_and_is_downloadable(browser, path):
    path.chmod(0o640)
    await browser.get(f"{SET}case/?id=one")
    await browser.send("review", turns__0__answer="x")
    await browser.save()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []
    answer = await browser.web.get(f"{SET}file/")
    assert answer.content == path.read_bytes()
    assert "attachment" in answer.headers["Content-Disposition"]


@pytest.mark.django_db
def test_pages_ask_the_store_as_much_for_many_cases_as_for_few(
    folder, rf, settings, django_assert_max_num_queries
):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    for number in range(12):
        write(
            folder.path, "set.evalset.json", evalset(*[case(f"c{n}", turn(f"{number}")) for n in range(150)])
        )
        library.refresh(folder, "counter")
    with django_assert_max_num_queries(8):
        case_editor._open_form(rf.get("/", {"id": "c140"}), "counter", "set")
    with django_assert_max_num_queries(6):
        versions._render_index(rf.get("/"), "counter", "set")
