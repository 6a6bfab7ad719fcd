"""The search in a conversation: what it finds, its pages and its limits."""

import time

import pytest
from api_calls import open_api, refusal
from hilum.messages import Text, Thinking, ToolCall, ToolResult
from hilum.testing import Answer as ScriptedAnswer
from hilum.testing import use
from hilum_serve.api.searching import (
    MAX_HITS_PER_FIELD,
    WINDOW,
    compile_query,
    search_entries,
)
from hilum_view import Answer, Card, Prompt, StreamedText
from served import serving


def make_card(identity, arguments, result=""):
    call = ToolCall(f"c{identity}", "bash", arguments)
    return Card(id=identity, call=call, result=ToolResult(call.id, "bash", (Text(result),)))


def find(entries, query, limit=100, seconds=60.0):
    return search_entries(entries, compile_query(query), limit, seconds)


async def test_prompts_answers_thinking_arguments_and_results_are_found(project):
    (project / "needle.txt").write_text("a Needle in a file\n")
    answers = [
        ScriptedAnswer((Thinking("the needle, I think"),)) + use("read_file", path="needle.txt"),
        "Found the\nNEEDLE.",
    ]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Look for the needle.")
        page = await api.get("/search", q="needle")
        entries = {each["id"]: each for each in (await api.get("/entries"))["entries"]}
        assert page["before"] == 0
        assert page["last"] == api.seen
        found = [(entries[hit["entry"]]["kind"], hit["field"]) for hit in page["hits"]]
        assert found[0] == ("answer", "text")
        assert {("answer", "thinking"), ("prompt", "text"), ("card", "result")} <= set(found)
        assert ("card", "arguments") in found
        (hit,) = [hit for hit in page["hits"] if hit["field"] == "arguments"]
        assert (hit["tool"], hit["agent"]) == ("read_file", "main")
        assert hit["excerpt"] == "path: needle.txt"
        assert (await api.get("/search", q="the needle"))["hits"][0]["excerpt"] == (
            "Found the NEEDLE."
        )
        assert (await api.get("/search", q="nowhere"))["hits"] == []


def test_upper_and_lower_case_are_the_same_in_all_alphabets():
    entries = [Prompt(id=0, text="İstanbul, STRASSE, Ωmega, ДОМ and straße")]
    for query in ("istanbul", "Istanbul", "strasse", "ωMEGA", "дом", "STRAßE"):
        assert [hit.excerpt for hit in find(entries, query)[0]] == [entries[0].text], query


def test_words_that_repeat_a_character_do_not_use_up_the_time_limit():
    """They need 0.1 seconds; trying each position anew would need 16."""
    text = "a" * 499_000 + "b"
    entries = [Prompt(id=number, text=text) for number in range(20)]
    for query in ("a" * 580 + " b", "a" * 300 + " " + "a" * 299):
        hits, last = find(entries, query, seconds=5.0)
        assert (hits, last) == ([], 0)


async def test_pages_have_every_hit_once(project):
    answers = [f"Needle {number} needle." for number in range(5)]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        for _ in range(5):
            await api.run("Go.")
        whole = (await api.get("/search", q="needle"))["hits"]
        assert len(whole) == 10
        pages = []
        before = 0
        while True:
            page = await api.get("/search", q="needle", before=before, limit=3)
            pages.append(page["hits"])
            before = page["before"]
            if not before:
                break
        assert [hit for hits in pages for hit in hits] == whole
        assert max(map(len, pages)) == 4
        last = whole[0]["entry"]
        newest = await api.get("/search", q="needle", after=last)
        assert [hit["entry"] for hit in newest["hits"]] == [last, last]


@pytest.mark.parametrize("query", ["%20%20", "", "x" * 601, "%20x" * 41])
async def test_a_query_without_or_with_too_many_words_is_refused(project, query):
    async with serving(project) as served, open_api(served, project) as api:
        url = f"/api/sessions/{api.session}/search?q={query}"
        assert refusal(await api.client.get(url)) == (400, "E_BAD_ARGS")


def test_dropped_answers_are_not_found():
    answer = Answer(id=0, text=StreamedText("needle"), state="dropped")
    assert find([answer], "needle") == ([], 0)


def test_special_characters_are_text():
    entries = [make_card(0, '{"command": "echo \\"a.b*\\" | grep [x]"}')]
    assert len(find(entries, '"a.b*" | grep [x]')[0]) == 1
    assert find(entries, "a.b.")[0] == []


def test_hits_across_the_borders_of_windows_are_found_once():
    word = "the needle"
    text = "x" * (WINDOW - 4) + word + "x" * (WINDOW - len(word)) + word
    hits, _ = find([Prompt(id=0, text=text)], word)
    assert [hit.position for hit in hits] == [WINDOW - 4, 2 * WINDOW - 4]
    assert [hit.index for hit in hits] == [0, 1]


def test_a_search_of_much_text_is_limited_in_time_and_hits():
    entries = [make_card(number, "{}", "needle " * 100_000) for number in range(200)]
    began = time.monotonic()
    hits, before = find(entries, "needle", limit=10_000, seconds=0.0)
    assert time.monotonic() - began < 5
    assert len(hits) == MAX_HITS_PER_FIELD
    assert before == 199
    hits, before = find(entries, "needle", limit=2 * MAX_HITS_PER_FIELD)
    assert (len(hits), before) == (2 * MAX_HITS_PER_FIELD, 198)


def test_blanks_cost_no_quadratic_time():
    text = "a" + " " * 2_000_000
    began = time.monotonic()
    assert find([Prompt(id=0, text=text)], "a b") == ([], 0)
    assert time.monotonic() - began < 5


def test_an_answer_that_is_streaming_is_left_as_it_is():
    text = StreamedText("a nee")
    text.add("dle")
    (hit,), _ = find([Answer(id=0, text=text)], "needle")
    assert hit.position == 2
    assert text._pieces == ["a nee", "dle"]
