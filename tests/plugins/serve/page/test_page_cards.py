"""Tool calls in every state, and what users can do with them."""

from urllib.parse import parse_qsl

import pytest

from .conftest import keep_screenshot, wait_until
from .samples import DIFF, answer, approval, card, every_state, prompt, result, started

pytestmark = pytest.mark.slow(cases=3, of="file")


def card_of(page, identity):
    return page.locator(f".card[data-call='c{identity}']")


def test_every_state_is_shown_and_folds_except_while_streaming(server, open_session):
    server.entries = every_state()
    server.state["started"] = [started("1", "Explore the project")]
    server.state["waiting"] = [approval("a1", server.entries[14])]
    page = open_session(size="wide")
    page.locator(".card.streaming").wait_for()
    states = {2: "completed", 3: "completed", 4: "failed", 5: "rejected", 9: "stopped",
              12: "running", 13: "pending", 14: "waiting"}  # fmt: skip
    for identity in sorted(states, reverse=True):
        shown = card_of(page, identity)
        while not shown.count():
            page.locator(".scroller").hover()
            page.mouse.wheel(0, -300)
            page.wait_for_timeout(30)
        assert shown.get_attribute("data-state") == states[identity]
        fold = shown.locator(".fold")
        before = fold.get_attribute("aria-expanded")
        other = "false" if before == "true" else "true"
        for expected in (other, before):
            fold.click()
            shown.locator(f".fold[aria-expanded={expected}]").wait_for()
    keep_screenshot(page, "cards")
    page.locator(".scroller").focus()
    page.keyboard.press("Shift+G")
    streaming = page.locator(".card.streaming")
    streaming.wait_for()
    assert streaming.locator(".fold").count() == 0


def test_streaming_arguments_grow(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "", state="streaming")]
    page = open_session()
    for at, add in ((0, '{"path": '), (9, '"src/calc.py'), (9, '"src/calc.py"}')):
        server.push({"type": "text", "seq": 1, "entry": 1, "field": "arguments", "call": "x",
                     "tool": "read_file", "at": at, "add": add})  # fmt: skip
    live = page.locator(".card.streaming .live")
    live.get_by_text('{"path": "src/calc.py"}').wait_for()
    page.locator(".card.streaming .tool", has_text="read_file").wait_for()


def test_invalid_arguments_are_shown_as_they_are(server, open_session):
    server.entries = [
        card(0, "bash", "{not json", "failed", result=result("E_BAD_ARGS: no", "E_BAD_ARGS"))
    ]
    page = open_session()
    assert "{not json" in card_of(page, 0).locator(".subject").inner_text()


def test_copying_confirms_for_a_second_and_a_half(server, open_session):
    server.entries = [
        card(
            0,
            "bash",
            {"command": "pytest -q"},
            "failed",
            result=result("E_CMD_FAIL: no", "E_CMD_FAIL"),
        )
    ]
    page = open_session(permissions=["clipboard-read", "clipboard-write"])
    button = card_of(page, 0).get_by_role("button", name="Copy arguments")
    page.evaluate("window.began = 0")
    button.click()
    copied = card_of(page, 0).locator(".copy-text.is-copied")
    copied.wait_for()
    assert copied.get_attribute("aria-label") == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == '{"command": "pytest -q"}'
    page.wait_for_timeout(1_200)
    assert copied.count() == 1
    copied.wait_for(state="detached", timeout=1_500)


def test_raw_arguments_and_the_whole_result(server, open_session):
    long = "x" * 30
    whole = card(0, "web_fetch", {"url": "https://example.org", "prompt": "Summarise the page." * 6},
                 result=result(long), cut={"result": 90_000})  # fmt: skip
    server.entries = [whole]
    server.replies["GET /calls/c0/result"] = (200, {"text": "the whole text", "total": 90_000})
    page = open_session()
    shown = card_of(page, 0)
    shown.locator(".fold").click()
    shown.get_by_role("button", name="Raw arguments").click()
    shown.locator(".card-text", has_text='{"url": "https://example.org"').wait_for()
    shown.get_by_role("button", name="Load the whole result (90k characters)").click()
    shown.get_by_text("the whole text").wait_for()


def test_a_failed_call_is_repeated(server, open_session):
    server.entries = [
        card(
            0,
            "bash",
            {"command": "pytest"},
            "failed",
            result=result("E_CMD_FAIL: no", "E_CMD_FAIL"),
        )
    ]
    page = open_session()
    card_of(page, 0).get_by_role("button", name="Retry").click()
    asked = server.wait_for("/calls/c0/repeat")
    assert asked.seen == "1"


def test_live_output_follows(server, open_session):
    server.entries = [card(0, "bash", {"command": "make"}, "running", output="one\n")]
    page = open_session()
    server.push({"type": "text", "seq": 1, "entry": 0, "field": "output", "at": 4, "add": "two\n"})
    card_of(page, 0).locator(".live").get_by_text("two").wait_for()


def test_diffs_unified_and_side_by_side_with_marked_words(server, open_session):
    server.entries = [
        card(0, "edit_file", {"path": "src/calc.py"}, risk="write", result=result("ok", diff=DIFF))
    ]
    page = open_session(size="wide")
    shown = card_of(page, 0)
    shown.locator("table.diff.unified, table.diff.split").first.wait_for()
    shown.get_by_role("button", name="Unified").click()
    wait_until(page, lambda: shown.locator("tr.added").count() == 3)
    assert shown.locator("tr.removed mark").inner_text() == "-"
    assert shown.locator("tr.added mark").first.inner_text() == "+"
    shown.get_by_role("button", name="Side by side").click()
    wait_until(page, lambda: shown.locator("table.split td.removed.code").count() == 1)
    assert shown.locator(".line-counts").first.inner_text() == "+3 −1"


def test_a_big_diff_is_calculated_in_the_worker_and_grows_on_demand(server, open_session):
    lines = "".join(
        f"-old line {n} with some more words\n+new line {n} with some more words\n"
        for n in range(1200)
    )
    diff = f"--- a/a\n+++ b/a\n@@ -1,1200 +1,1200 @@\n{lines}"
    server.entries = [
        card(0, "edit_file", {"path": "a"}, risk="write", result=result("ok", diff=diff))
    ]
    page = open_session()
    shown = card_of(page, 0)
    shown.locator(".fold").first.click()
    shown.locator("tr.added, tr.removed").first.wait_for()
    before = shown.locator("table.diff tr").count()
    shown.get_by_role("button", name="Show more rows").click()
    wait_until(page, lambda: shown.locator("table.diff tr").count() > before)


def test_sub_agents_show_progress_and_open(server, open_session):
    server.entries = [prompt(0, "Go"), card(1, "task", {"description": "Explore the project"}, "running"),
                      {**answer(2, "I am the explorer."), "agent": "explore-1"}]  # fmt: skip
    server.state["started"] = [started("1", "Explore the project", call="c1")]
    page = open_session(size="wide")
    shown = card_of(page, 1)
    assert shown.locator(".agent-progress").inner_text().startswith("5 calls")
    assert page.get_by_text("I am the explorer.").count() == 0
    ended = started("1", "Explore the project", "completed", call="c1", ended=True,
                    answer="Found four files.", seconds=9.0)  # fmt: skip
    server.change(started=[ended])
    page.locator(".agent .tag.completed").wait_for()
    shown.locator(".fold").click()
    shown.get_by_text("Found four files.").wait_for()
    shown.get_by_role("button", name="Open conversation").click()
    page.get_by_text("I am the explorer.").wait_for()
    page.get_by_role("button", name="Back").click()
    card_of(page, 1).wait_for()


def test_a_result_longer_than_one_page_is_loaded_in_parts(server, open_session):
    text = ("é😀" * 49 + "é\n") * 3_000
    long = card(0, "bash", {"command": "cat all"}, result=result("head … tail"))
    long["cut"] = {"result": len(text)}
    server.entries = [long]

    def read(asked):
        query = {name: int(value) for name, value in parse_qsl(asked.query)}
        start = query["offset"]
        part = text[start : start + query["limit"]]
        return 200, {"text": part, "offset": start, "total": len(text)}

    server.replies["GET /calls/c0/result"] = read
    page = open_session()
    shown = page.locator(".card")
    shown.locator(".fold").click()
    shown.get_by_role("button", name="Load the whole result").click()
    shown.get_by_role("button", name="Load more (100k characters left)").click()
    shown.get_by_role("button", name="Load more").wait_for(state="detached")
    assert shown.locator(".card-text.whole").text_content() == text


def test_the_whole_text_of_a_long_answer_is_loaded(server, open_session):
    long = answer(4, "The beginning … the end")
    long["cut"] = {"text": 60_000}
    server.entries = [long]

    def read(asked):
        after = int(dict(parse_qsl(asked.query))["after"])
        events = [{"type": "todo_changed", "seq": n, "agent": "main"} for n in range(5, 105)]
        parts = [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": "All of **it**"}]
        other = {"type": "model_answered", "seq": 105, "agent": "explore", "message": {"parts": []}}
        mine = {"type": "model_answered", "seq": 106, "agent": "main", "message": {"parts": parts}}
        found = [each for each in [*events, other, mine] if each["seq"] > after]
        return 200, {"events": found[:100], "last": 106}

    server.replies["GET /events"] = read
    page = open_session()
    page.get_by_role("button", name="Load the whole answer").click()
    page.locator(".answer-text strong", has_text="it").wait_for()
    assert page.get_by_text("This text was cut").count() == 0


def test_a_card_says_who_decided(server, open_session):
    server.entries = [
        card(0, "bash", {"command": "make"}, decided_by="user"),
        card(1, "bash", {"command": "rm x"}, "failed", began=0, decided_by="timeout",
             result=result("E_APPROVAL_TIMEOUT: no", "E_APPROVAL_TIMEOUT")),
    ]  # fmt: skip
    page = open_session()
    card_of(page, 0).locator(".fold").click()
    card_of(page, 0).get_by_text("Accepted by a user").wait_for()
    for number, name, text in ((2, "eva", "Accepted by eva"), (3, "ada", "Accepted by you")):
        server.add(card(number, "bash", {"command": "ls"}, decided_by="user", decided_name=name))
        card_of(page, number).locator(".fold").click()
        card_of(page, number).get_by_text(text).wait_for()
    assert card_of(page, 2).locator(".card-head").get_by_text("by eva").count() == 1
    assert card_of(page, 3).locator(".decider-tag").count() == 0
    card_of(page, 1).locator(".fold").click()
    card_of(page, 1).get_by_text("nobody answered in time").wait_for()
