"""Types of content parts. No store."""

from __future__ import annotations

from sessions_app.timeline import content_parts
from sessions_app.timeline.content_parts import Part, parse_parts


def part(**body: object) -> Part:
    [result] = parse_parts({"parts": [body]})
    return result


def test_every_kind_of_part_is_recognized():
    bodies = [
        {"text": "hm", "thought": True},
        {"text": "hello"},
        {"functionCall": {"id": "c1", "name": "f", "args": {}}},
        {"functionResponse": {"id": "c1", "name": "f", "response": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "text/plain", "fileUri": "gs://x/y"}},
        {"executableCode": {"code": "1+1", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH", "args": {}}},
        {"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH", "response": {}}},
        {"videoMetadata": {"fps": 1}},
    ]
    parts = parse_parts({"parts": bodies})
    assert [(each.type, each.is_thought) for each in parts[:2]] == [("text", True), ("text", False)]
    assert [each.type for each in parts[2:]] == [*content_parts.FIELDS, "other"]
    assert [each.pointer for each in parts] == [f"/content/parts/{n}" for n in range(len(bodies))]
    assert parts[-1].value == bodies[-1]


def test_content_that_is_no_content_has_no_parts():
    for content in (None, "x", [], {}, {"parts": None}, {"parts": "x"}, {"parts": [None, 3, "x"]}):
        assert parse_parts(content) == []


def test_malformed_part_is_shown_raw():
    for body in ({"functionCall": "x"}, {"inlineData": None}, {"text": 3}):
        assert (part(**body).type, part(**body).media) == ("other", None)


def test_media_are_described_without_their_bytes():
    blob = part(inlineData={"mimeType": "image/png", "data": "A" * 398 + "==", "displayName": "a.png"}).media
    assert (blob.mime, blob.name, blob.size, blob.uri) == ("image/png", "a.png", 298, "")
    file = part(fileData={"mimeType": "text/plain", "fileUri": "gs://x/y"}).media
    assert (file.size, file.uri) == (None, "gs://x/y")


def test_media_in_tool_results_are_found():
    answer = {"name": "f", "response": {}, "parts": [{"inlineData": {"data": "AAAA"}}, {"text": "x"}]}
    [media] = part(functionResponse=answer).answers_media
    assert (media.size, media.pointer) == (3, "/content/parts/0/functionResponse/parts/0")


def test_additional_fields_of_a_part_are_kept():
    text_part = part(text="x", thoughtSignature="c2ln", videoMetadata={"fps": 1})
    assert text_part.extras == {"thoughtSignature": "c2ln", "videoMetadata": {"fps": 1}}
    call = part(
        functionCall={"id": "c", "name": "f", "args": {}, "willContinue": True, "odd": 1}, thought=True
    )
    assert call.extras == {"willContinue": True, "odd": 1}
    assert part(odd={"a": 1}).extras == {}


def test_long_text_is_cut_with_remaining_length():
    limit = content_parts.EXCERPT_LENGTH
    assert part(text="x" * (limit + 15)).text == content_parts.TextExcerpt(
        "x" * limit, 15, "/content/parts/0/text"
    )
    code = part(executableCode={"code": "y" * (limit + 2)})
    assert code.text == content_parts.TextExcerpt("y" * limit, 2, "/content/parts/0/executableCode/code")
    assert part(functionCall={"name": "f"}).text.start == ""
