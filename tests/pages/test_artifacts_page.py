"""Artifact pages: list, file with versions, previews, uploads, deletion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.console import message_draft
from sessions_app.presentation import file_type
from sessions_app.store.artifacts import artifact_versions, content_files
from sessions_app.store.models import Artifact
from tests.image_data import EVIL_SVG, PNG
from tests.pages.client import Get
from tests.pages.html import Element, parse, table
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]

ODD_NAMES = [
    "a/b/../c.txt",
    "quo\"te's <b>&amp;.txt",
    "日本語 ファイル.txt",
    "x" * 255,
    "üñï%2Fcode?&#.txt",
    ".",
    "line\nbreak",
    " blank ",
]


def save(
    content: bytes = b"hello",
    name: str = "note.txt",
    mime: str | None = "text/plain",
    *,
    session: str = "s1",
    **fields: Any,
) -> Artifact:
    """Save a version of a file of ann in `weather`."""
    owner = {"realm": "", "app_name": "weather", "user_id": "ann"} | fields
    key = artifact_versions.file_key(**owner, session_id=session or None, filename=name)
    draft = artifact_versions.VersionMetadata(
        Artifact.Holding.DATA, '{"inlineData": {}}', mime, "{}", session
    )
    with content_files.store_content(content) as payload:
        return artifact_versions.save(key, draft, payload)


def address(name: str = "note.txt", session: str = "s1", **more: Any) -> str:
    """Return the page of a file of ann in `weather`."""
    query = {"app": "weather", "user": "ann", "session": session, "name": name, **more}
    return "/artifacts/file/?" + urlencode(query)


def fetch_content(client: Client, url: str) -> tuple[Any, bytes]:
    """Return an answer and all that it sends."""
    answer = client.get(url)

    async def collected() -> bytes:
        return b"".join([part async for part in answer.streaming_content])

    return answer, async_to_sync(collected)()


def names(page: Element) -> list[str]:
    return [row["Name"] for row in table(page)]


def content_of(page: Element) -> Element:
    return page.one("section", css="artifact-content")


# --- the list ---


def test_each_file_is_listed_once_with_its_newest_version_and_its_session(get: Get):
    Story().asks("Weather?")
    save(b"old")
    save(b"newer")
    save(b"mine", "user:profile.json", "application/json")
    first, second = table(get("/artifacts/"))
    assert first["Name"].endswith("profile.json")
    assert (second["Version"], second["Size"], second["Session"], second["App"], second["User"]) == (
        "1", "5 B", "Weather?", "weather", "ann",
    )  # fmt: skip


def test_files_are_filtered_by_app_user_session_and_scope(get: Get):
    save(name="one.txt")
    save(name="two.txt", session="s2", user_id="ben")
    save(name="user:three.txt", app_name="writer")
    assert names(get("/artifacts/?app=writer")) == ["U three.txt"]
    assert names(get("/artifacts/?user=ben")) == ["S two.txt"]
    assert names(get("/artifacts/?session=s1")) == ["S one.txt"]
    assert names(get("/artifacts/?scope=user")) == ["U three.txt"]
    assert (
        get("/artifacts/?app=writer&user=ben").one("div", css="empty").one("h2").text == "No artifact matches"
    )


def test_empty_store_explains_artifacts(get: Get):
    assert get("/artifacts/").one("div", css="empty").one("h2").text == "No artifacts yet"


@pytest.mark.parametrize("query", ["?before=x", "?scope=everything"])
def test_invalid_list_parameter_is_refused(get: Get, query: str):
    get(f"/artifacts/{query}", status=400)


def test_pages_join_without_a_gap_or_a_repetition(get: Get):
    pks = [save(name=f"{n}.txt").pk for n in range(110)]
    for pk in pks:
        Artifact.objects.filter(pk=pk).update(created_at=float(pk // 3))
    page_pks, url = [], "/artifacts/"
    while url:
        page = get(url)
        page_pks += [int(row.attrs["id"].removeprefix("artifact-")) for row in page.one("tbody").all("tr")]
        older = page.all("a", rel="next")
        url = f"/artifacts/{older[0].attrs['href']}" if older else ""
    assert sorted(page_pks) == sorted(pks)


def test_the_number_of_queries_does_not_depend_on_the_number_of_files(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    for n in range(3):
        for m in range(10):
            Story(f"s{n}-{m}")
            save(name=f"{n}-{m}", session=f"s{n}-{m}")
        with django_assert_num_queries(3):  # the apps of the filter, the files, their sessions
            client.get("/artifacts/")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("REPORT", {"report.md", "report-2.md"}),
        ("ort.", {"report.md"}),
        ("user:", {"report-2.md"}),
        ("user:rep", {"report-2.md"}),
        ("%", {"100%.txt"}),
        ("user:ort", set()),
    ],
)
def test_files_are_searched_by_part_of_their_name(get: Get, part: str, expected: set[str]):
    for name in ("report.md", "user:report-2.md", "100%.txt"):
        save(name=name)
    page = get(f"/artifacts/?{urlencode({'name': part})}")
    assert page.one("input", name_="name").attrs["value"] == part
    names = [row.all("a")[0].text for body in page.all("tbody") for row in body.all("tr")]
    assert set(names) == expected
    assert expected or "No artifact matches" in page.text


def test_pages_of_name_search_keep_the_name(get: Get):
    for number in range(60):
        save(name=f"a{number}.txt")
        save(name=f"b{number}.txt")
    first = get("/artifacts/?name=A")
    second = get(f"/artifacts/{first.one('a', rel='next').attrs['href']}")
    names = [row.all("a")[0].text for page in (first, second) for row in page.one("tbody").all("tr")]
    assert sorted(names) == sorted(f"a{number}.txt" for number in range(60))


def test_artifacts_of_deleted_session_are_hidden(get: Get, client: Client):
    artifact = save(realm="deleted/7")
    assert not get("/artifacts/").all("table")
    assert not get("/artifacts/?realm=deleted/7").all("table")
    get(address(realm="deleted/7"), status=404)
    assert client.get(f"/artifacts/{artifact.pk}/content/").status_code == 404


# --- one file ---


@pytest.mark.parametrize(
    ("name", "mime", "content", "tag"),
    [
        ("note.txt", "text/plain", b"hello", "pre"),
        ("note.md", "text/plain", b"# Title", "h1"),
        ("data.json", None, b'{"a": [1, 2]}', "details"),
        ("data", "text/csv", b"a,b\n1,2\n", "table"),
        ("plot", "image/png", PNG, "img"),
        ("evil.svg", "image/svg+xml", EVIL_SVG, "img"),
        ("song", "audio/mpeg", b"ID3\x04....", "audio"),
        ("film", "video/mp4", b"\x00\x00\x00 ftypisom", "video"),
    ],
)
def test_file_is_shown_by_its_type(get: Get, name: str, mime: str | None, content: bytes, tag: str):
    save(content, name, mime)
    assert content_of(get(address(name))).all(tag)


def test_a_pdf_opens_in_the_browsers_viewer_and_runs_nothing(get: Get, client: Client):
    artifact = save(b"%PDF-1.7", "a.pdf", "application/pdf")
    link = content_of(get(address("a.pdf"))).one("a")
    assert (link.attrs["href"], link.attrs["target"]) == (f"/artifacts/{artifact.pk}/content/", "_blank")
    assert client.get(link.attrs["href"])["Content-Type"] == file_type.PDF


def test_fake_image_is_offered_for_download(get: Get):
    save(b"\x00\x01\x02", "plot.png", "image/png")
    page = content_of(get(address("plot.png")))
    assert page.one("h2").text == "No preview"
    assert not page.all("img")


def test_html_is_rendered_in_a_frame_without_scripts_or_network(get: Get, client: Client):
    artifact = save(b"<h1>Hello</h1><script>alert(1)</script>", "page.html", "text/html")
    assert "Shown as HTML" in get(address("page.html")).text
    frame = content_of(get(address("page.html"))).one("iframe")
    assert frame.attrs["sandbox"] == ""
    assert frame.attrs["src"] == f"/artifacts/{artifact.pk}/content/?rendered=1"
    answer, _ = fetch_content(client, frame.attrs["src"])
    policy = answer["Content-Security-Policy"]
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert policy.startswith("sandbox; default-src 'none'; img-src data:;")
    assert "script-src" not in policy
    assert "allow-" not in policy
    assert "'self'" not in policy.replace("frame-ancestors 'self'", "")


@pytest.mark.parametrize("content", [PNG, EVIL_SVG, b"%PDF-1.7", b"\x00\x01"])
def test_only_text_is_rendered_as_html(client: Client, content: bytes):
    artifact = save(content, "page.html", "text/html")
    answer, _ = fetch_content(client, f"/artifacts/{artifact.pk}/content/?rendered=1")
    assert not answer["Content-Type"].startswith("text/html")


def test_list_of_artifacts_shows_a_thumbnail_for_an_image_only(get: Get):
    artifact = save(PNG, "photo.png", "image/png")
    save(b"hello")
    [image] = get("/artifacts/").one("main").all("img")
    assert image.attrs["src"] == f"/artifacts/{artifact.pk}/content/"


def test_html_source_is_shown_as_text_and_served_in_a_sandbox(get: Get, client: Client):
    artifact = save(b"<script>alert(1)</script>", "page.html", "text/html")
    assert content_of(get(address("page.html", view="source"))).one("pre").text == "<script>alert(1)</script>"
    answer, content = fetch_content(client, f"/artifacts/{artifact.pk}/content/")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("sandbox;")
    assert content == b"<script>alert(1)</script>"


def test_a_huge_text_is_shown_by_its_beginning_and_served_whole(get: Get, client: Client):
    artifact = save(b"word " * 500_000)
    page = content_of(get(address()))
    assert len(page.one("pre").text) < 101_000
    assert "100,000 characters of 2.50 MB" in page.text
    answer, content = fetch_content(client, f"/artifacts/{artifact.pk}/content/")
    assert int(answer["Content-Length"]) == len(content) == 2_500_000


def test_large_tables_are_cut_with_a_note(get: Get):
    save("\n".join(",".join(map(str, range(60))) for _ in range(5_000)).encode(), "t.csv", "text/csv")
    page = content_of(get(address("t.csv")))
    assert len(page.one("tbody").all("tr")) == 200
    assert len(page.one("thead").all("th")) == 40
    assert "20 more columns not shown" in page.text


def test_long_branches_of_json_are_fetched_piece_by_piece(get: Get, client: Client):
    artifact = save(json.dumps({"n": list(range(5_000))}).encode(), "a.json", "application/json")
    assert content_of(get(address("a.json"))).all("details")
    piece = client.get(f"/artifacts/{artifact.pk}/json/", {"pointer": "/n", "offset": 100})
    assert b"101" in piece.content
    other = save(b"{no", "b.json")
    assert client.get(f"/artifacts/{other.pk}/json/").status_code == 404


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{" * 100_000),
        ("a.csv", b'"' + b"x" * 200_000),
        ("a.json", b'"\\ud800"'),
        ("a.csv", b"\n\n"),
    ],
)
def test_damaged_file_is_shown_as_far_as_readable(get: Get, name: str, content: bytes):
    save(content, name, None)
    assert content_of(get(address(name)))


def test_its_source_can_be_seen(get: Get):
    save(b"# Title", "note.md")
    assert content_of(get(address("note.md", view="source"))).one("pre").text == "# Title"


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("prefix", ["", "user:"])
def test_artifact_with_any_name_can_be_downloaded_and_deleted(
    get: Get, client: Client, name: str, prefix: str
):
    save(b"hello", prefix + name, "text/plain")
    link = get("/artifacts/").one("td", css="artifact-name").one("a")
    page = get(link.attrs["href"])
    content = next(a.attrs["href"] for a in page.all("a") if "save=1" in a.attrs["href"])
    answer, body = fetch_content(client, content)
    assert (answer["Content-Disposition"].startswith("attachment;"), body) == (True, b"hello")
    ask = next(a.attrs["href"] for a in page.all("a") if "/artifacts/delete/" in a.attrs["href"])
    form = get(ask).one("form", method="post")
    form_fields = {field.attrs["name"]: field.attrs["value"] for field in form.all("input")}
    assert client.post("/artifacts/delete/", form_fields).status_code == 302
    assert not Artifact.objects.exists()


def test_the_event_that_saved_a_version_is_linked(get: Get):
    story = Story()
    story.asks("Write")
    save(b"old", "user:a b.txt")
    seq = story.says("done", actions={"artifactDelta": {"user:a b.txt": 0}})
    save(b"new", "user:a b.txt")
    old = get(address("user:a b.txt", session="", version=0)).one("aside", css="artifact-side")
    assert [a.attrs["href"] for a in old.all("a") if a.text == f"event {seq}"] == [
        f"/sessions/weather/ann/s1/?seq={seq}"
    ]
    new = get(address("user:a b.txt", session="")).one("aside", css="artifact-side")
    assert "no event names it" in new.text


def test_an_event_leads_to_the_page_of_the_version_it_saved(client: Client):
    story = Story()
    save(b"hello", "user:a&b.txt")
    answer = client.get(f"/sessions/id/{story.pk}/artifacts/", {"name": "user:a&b.txt", "version": 0})
    assert client.get(answer["Location"]).status_code == 200
    missing = client.get(f"/sessions/id/{story.pk}/artifacts/", {"name": "none"})
    assert client.get(missing["Location"]).status_code == 404


def test_two_versions_of_a_text_are_compared_line_by_line(get: Get):
    save(b"one\ntwo\nthree")
    save(b"one\n2\nthree")
    lines = content_of(get(address(against=0))).one("ol", css="value-diff").all("li")
    assert [(line.attrs["class"], line.one("code").text) for line in lines] == [
        ("same", "one"), ("removed", "two"), ("added", "2"), ("same", "three"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [(b"same", b"same", "the same content"), (PNG, b"text", "Only text can be compared")],
)
def test_missing_comparison_is_explained(get: Get, old: bytes, new: bytes, why: str):
    save(old)
    save(new)
    assert why in content_of(get(address(against=0))).text


def test_huge_texts_are_compared_by_their_beginnings(get: Get):
    save(b"a\n" * 600_000)
    save(b"b\n" * 600_000)
    assert "Only the beginnings" in content_of(get(address(against=0))).text


def test_a_link_is_shown_and_never_followed(get: Get, client: Client):
    key = artifact_versions.file_key("", "weather", "ann", "s1", "far")
    part = json.dumps({"fileData": {"fileUri": "javascript:alert(1)"}})
    artifact = artifact_versions.save(
        key, artifact_versions.VersionMetadata(Artifact.Holding.LINK, part, None, "{}", "s1"), None
    )
    page = content_of(get(address("far")))
    assert "javascript:alert(1)" in page.text
    assert not page.all("a")
    assert client.get(f"/artifacts/{artifact.pk}/content/").status_code == 404


def test_version_that_hides_a_file_says_so(get: Get):
    save(b"", "gone.txt", "application/octet-stream")
    assert "hides the file" in content_of(get(address("gone.txt"))).text


def test_missing_artifact_says_so(get: Get):
    save()
    get(address("other"), status=404)
    get(address(version=7), status=404)
    get(address(against=7), status=404)
    get("/artifacts/file/?app=weather", status=400)


def test_file_page_needs_few_queries_for_many_versions(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    Story()
    for n in range(30):
        save(f"version {n}".encode())
    with django_assert_num_queries(5):  # the version, all versions, its session, its content, its event
        client.get(address())


# --- uploads ---


def send(client: Client, content: bytes, filename: str = "x.bin", mime: str = "", **fields: str) -> Any:
    file = SimpleUploadedFile(filename, content, content_type=mime)
    return client.post("/artifacts/upload/", {"app": "weather", "user": "ann", "file": file, **fields})


def test_an_upload_becomes_the_next_version_typed_by_its_content(client: Client):
    Story()
    save(b"old", "plot.png", "text/plain")
    answer = send(client, PNG, mime="text/html", name="plot.png", session="s1")
    assert answer.status_code == 302
    artifact = Artifact.objects.get(version=1)
    assert (artifact.mime_type, artifact.filename, bytes(artifact.content or b"")) == (
        "image/png",
        "plot.png",
        PNG,
    )
    assert client.get(answer["Location"]).status_code == 200


def test_an_upload_without_a_session_is_the_users(client: Client):
    assert send(client, b"# Hi", "readme.md").status_code == 302
    artifact = Artifact.objects.get()
    assert (artifact.session_id, artifact.filename, artifact.mime_type) == ("", "readme.md", "text/markdown")


@pytest.mark.parametrize(
    ("fields", "content", "words"),
    [
        ({"session": "nobody"}, b"x", "has no such session"),
        ({}, b"", "empty"),
        ({"app": ""}, b"x", "required"),
        ({"session": " "}, b"x", "is blank"),
        ({"name": "../../up.txt"}, b"x", "path out of its folder"),
        ({"name": "/etc/passwd"}, b"x", "path out of its folder"),
    ],
)
def test_invalid_upload_is_refused_with_reason(
    client: Client, fields: dict[str, str], content: bytes, words: str
):
    answer = send(client, content, **fields)
    assert (answer.status_code, words in answer.content.decode()) == (422, True)
    assert not Artifact.objects.exists()


def test_refused_upload_of_new_file_is_correctable_in_place(client: Client):
    answer = send(client, b"x", name="new.txt", session="nobody")
    fields = {
        field.attrs["name"]: field.attrs.get("type") for field in parse(answer.content).all("input")[:5]
    }
    assert fields == dict.fromkeys(["app", "user", "session", "name"], "text") | {"realm": "hidden"}


def test_too_large_upload_is_refused(client: Client):
    answer = send(client, b"x" * (message_draft.MAX_BYTES + 1))
    assert answer.status_code == 422
    assert b"the maximum is 20 MB" in answer.content


@pytest.mark.parametrize("path", ["/artifacts/upload/", "/artifacts/delete/"])
def test_other_sites_can_neither_upload_nor_delete(client: Client, path: str):
    save()
    answer = client.post(path, {"app": "weather"}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert Artifact.objects.count() == 1


def test_artifacts_of_eval_attempt_are_read_only(client: Client, get: Get):
    save(realm="eval/1")
    page = get(address(realm="eval/1"))
    assert not [a for a in page.all("a") if "/delete/" in a.attrs["href"] or "/upload/" in a.attrs["href"]]
    form = {"app": "weather", "user": "ann", "session": "s1", "name": "note.txt", "realm": "eval/1"}
    assert client.post("/artifacts/delete/", form).status_code == 400
    assert send(client, b"x", name="note.txt", session="s1", realm="eval/1").status_code == 400


def test_external_artifacts_are_announced_and_uploads_refused(client: Client, get: Get, settings: Any):
    settings.DEVUI_ARTIFACT_SERVICE = "gs://bucket"
    assert "gs://bucket" in get("/artifacts/").one("div", css="notice").text
    assert send(client, b"x").status_code == 400


def test_deleting_removes_all_versions_and_their_files_and_leaves_others(client: Client, get: Get):
    save(b"a" * 100_000)
    save(b"b" * 100_000)
    save(b"b" * 100_000, "other.txt")
    page = get(address().replace("/file/", "/delete/"))
    assert "Delete 2 versions" in page.one("form", method="post").text
    form = {"app": "weather", "user": "ann", "session": "s1", "name": "note.txt"}
    assert (
        client.post("/artifacts/delete/", form)["Location"] == "/artifacts/?app=weather&user=ann&session=s1"
    )
    assert Artifact.objects.get().filename == "other.txt"
    assert {Path(name).name for name in content_files.list_names()} == {Artifact.objects.get().sha256}
