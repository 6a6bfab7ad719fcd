"""The conversation: streaming, reconnecting, long sessions, and text that wants to be markup."""

import re

import pytest

from .conftest import keep_screenshot, wait_until
from .samples import MARKDOWN, answer, approval, card, entry, prompt, result, started

pytestmark = pytest.mark.slow(cases=5, of="file")

HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    "<svg onload='window.hacked=1'><a href='javascript:window.hacked=1'>a</a>"
    "![x](http://evil.test/x.png) [y](javascript:window.hacked=1) [z](//evil.test) "
    "<button onclick='window.hacked=1'>b</button><style>*{display:none}</style>\u202e{{7*7}}${7*7}"
)


def text_of(page, identity=1):
    return page.locator(".answer-text").nth(identity - 1).inner_text()


def test_markdown_streams_by_blocks_and_finished_blocks_stay(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "", state="streaming")]
    page = open_session()
    for at in range(0, len(MARKDOWN), 40):
        server.push(
            {
                "type": "text",
                "seq": 1,
                "entry": 1,
                "field": "text",
                "at": at,
                "add": MARKDOWN[at : at + 40],
            }
        )
        if at == 200:
            page.locator(".markdown h2").wait_for()
            page.evaluate("document.querySelector('.markdown h2').kept = true")
    page.locator(".markdown blockquote a").wait_for()
    assert page.evaluate("document.querySelector('.markdown h2').kept")
    assert page.locator(".markdown table td").count() == 6
    code = page.locator(".code-block code")
    assert code.inner_text() == "def add(a: int, b: int) -> int:\n    return a + b  # was a - b"
    server.add(answer(1, MARKDOWN))
    page.locator(".facts").wait_for(state="attached")
    assert page.locator(".markdown h2").count() == 1
    assert page.locator(".markdown blockquote a").get_attribute("rel") == "noopener noreferrer"


def test_thinking_is_folded(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "Yes.", thinking="Let me **think**.")]
    page = open_session()
    assert page.locator(".thinking-text").count() == 0
    page.get_by_role("button", name="Thoughts").click()
    page.locator(".thinking-text strong").wait_for()


def test_reconnecting_continues_after_the_last_number_without_doubles(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "one two ", state="streaming")]
    page = open_session(expected="WebSocket")
    page.get_by_text("one two").wait_for()
    server.refuses_streams = True
    server.disconnect()
    page.locator(".connection.reconnecting").get_by_text("reconnecting").wait_for()
    server.add(answer(1, "one two three"))
    server.add(prompt(2, "And then?"))
    server.refuses_streams = False
    page.locator(".connection.open").wait_for(state="attached")
    page.get_by_text("And then?").wait_for()
    assert server.connects[-1] > 0
    assert page.locator(".entry-answer").count() == 1
    assert text_of(page) == "one two three"
    # What is sent again, such as the beginning of a text, is not added twice.
    server.push(
        {"type": "text", "seq": 1, "entry": 1, "field": "text", "at": 4, "add": "two three four"}
    )
    page.get_by_text("one two three four").wait_for()


def test_a_gap_in_a_text_leads_to_a_new_snapshot(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "one", state="streaming")]
    page = open_session()
    page.get_by_text("one").wait_for()
    server.entries[1]["text"] = "one two three"
    server.push({"type": "text", "seq": 1, "entry": 1, "field": "text", "at": 8, "add": "three"})
    page.get_by_text("one two three").wait_for()
    assert server.connects == [0, 0]


def test_a_page_that_slept_connects_again_when_it_is_seen(server, open_session):
    page = open_session()
    page.evaluate("""() => {
        const now = Date.now;
        Date.now = () => now() + 86_400_000;
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    wait_until(page, lambda: len(server.connects) == 2)
    server.add(prompt(0, "After the night"))
    page.get_by_text("After the night").wait_for()


def test_signed_out_says_what_to_do(server, open_session):
    page = open_session(expected="401|WebSocket")
    server.signed_in = False
    server.disconnect()
    page.get_by_role("heading", name="You are signed out").wait_for()
    assert "hilum serve" in page.locator(".signed-out").inner_text()


def test_a_deleted_session_is_told(server, open_session):
    page = open_session()
    server.refusal = 404
    server.disconnect()
    page.get_by_text("This session does not exist anymore.").wait_for()
    assert page.get_by_role("button", name="Open again").count() == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_session_that_a_token_may_not_open_says_why(server, open_session, language):
    page = open_session(language=language)
    server.refusal = 403
    server.disconnect()
    title = (
        "你的令牌无权打开此会话。" if language == "zh" else "Your token may not open this session."
    )
    page.get_by_role("heading", name=title).wait_for()
    page.locator(".empty", has_text="No.").wait_for()  # the reason of the server
    assert page.get_by_role("button", name=re.compile("Open again|重新打开")).count() == 0
    assert page.locator(".composer textarea").is_hidden()


def test_a_closed_session_is_opened_again_only_by_the_user(server, open_session):
    server.entries = [prompt(0, "Go")]
    page = open_session()
    page.get_by_text("Go", exact=True).wait_for()
    server.asked.clear()
    server.close_code = 4404
    server.disconnect()
    page.get_by_role("heading", name="This session was closed.").wait_for()
    assert page.locator(".composer textarea").is_hidden()
    assert len(server.connects) == 1
    assert [each for each in server.asked if each.path not in ("/sessions", "/me")] == []
    page.get_by_role("button", name="Open again").click()
    server.wait_for("/open")
    page.locator(".connection.open").wait_for(state="attached")
    page.locator(".composer textarea").wait_for()


def test_opening_a_session_again_can_fail_and_be_repeated(server, open_session):
    page = open_session(expected="503|404")
    server.close_code = 4404
    server.disconnect()
    server.replies["POST /open"] = (503, {"code": "E_BUSY", "message": "Later.", "hint": ""})
    page.get_by_role("button", name="Open again").click()
    page.locator(".toast").get_by_text("E_BUSY: Later.").wait_for()
    server.replies["POST /open"] = (404, {"code": "E_UNKNOWN", "message": "Gone.", "hint": ""})
    page.get_by_role("button", name="Open again").click()
    page.get_by_text("This session does not exist anymore.").wait_for()


def test_a_stream_whose_token_ended_is_tried_again_if_the_server_knows_the_browser(
    server, open_session
):
    """Also if the server does not answer at that moment."""
    page = open_session(expected="500")
    problem = (500, {"code": "E_BUG", "message": "No.", "hint": ""})
    server.replies.update({"GET /me": problem, "GET ": problem})
    server.close_code = 4401
    server.disconnect()
    wait_until(page, lambda: len(server.connects) == 2)
    page.locator(".connection.open").wait_for(state="attached")


def test_refused_streams_are_tried_again_with_growing_pauses(server, open_session):
    page = open_session()
    server.refusal = 429
    server.disconnect()
    page.wait_for_timeout(4_000)
    # 0.3, 0.6, 1.2 and 2.4 seconds, each up to a fifth shorter or longer.
    assert 3 <= len(server.connects) <= 5
    requests = [each for each in server.asked if each.path in ("", "/me")]
    assert len(requests) <= 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_text_from_models_tools_and_files_is_never_markup(server, open_session, language):
    hostile_card = card(
        3, HOSTILE, {"path": HOSTILE, "command": HOSTILE}, "failed", result=result(HOSTILE, HOSTILE)
    )
    waiting = card(4, "bash", {"command": HOSTILE}, "waiting_for_approval")
    server.entries = [
        prompt(0, HOSTILE, attached=HOSTILE, context=[{"source": HOSTILE, "characters": 1}]),
        answer(
            1,
            f"# {HOSTILE}\n\n{HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n\n| {HOSTILE} |\n|--|\n| x |",
            thinking=HOSTILE,
        ),
        entry(2, "notice", about="said", text=HOSTILE, code=HOSTILE, hint=HOSTILE, level="warning"),
        hostile_card,
        waiting,
        card(
            5,
            "edit_file",
            {"path": HOSTILE},
            result=result("ok", diff=f"@@ -1 +1 @@ {HOSTILE}\n-{HOSTILE}\n+{HOSTILE}x"),
        ),
        entry(
            6,
            "outcome",
            end={"state": "failed", "code": HOSTILE, "error": HOSTILE, "hint": HOSTILE},
            unread=[HOSTILE],
        ),
    ]
    server.state.update(
        title=HOSTILE, model=f"a/{HOSTILE}", mode=HOSTILE, branch=HOSTILE, sandbox=HOSTILE, workspace=f"/{HOSTILE}",
        waiting=[approval("a1", waiting, reason=HOSTILE, scope=HOSTILE)],
        started=[started("1", HOSTILE, agent=HOSTILE, activity=HOSTILE)],
        todo=[{"agent": "main", "completed": 0, "total": 1, "items": [{"id": "1", "content": HOSTILE, "status": "pending"}]}],
        queued=[{"id": "r", "agent": "main", "text": HOSTILE}], files_seq=2,
    )  # fmt: skip
    server.replies["facts a1"] = {
        "text": HOSTILE,
        "covers": HOSTILE,
        "rule": HOSTILE,
        "dangers": [{"text": HOSTILE, "grave": False}],
    }
    server.replies["GET /files"] = (200, {"files": [{"path": HOSTILE, "added": 1, "removed": 1}]})
    server.replies["GET /commands"] = (
        200,
        {"commands": [{"name": HOSTILE, "mark": "/", "summary": HOSTILE, "arguments": HOSTILE}]},
    )
    server.replies["GET /complete"] = (200, {"completions": [{"text": HOSTILE, "kind": "file"}]})
    server.sessions = [
        server.listed("s1", HOSTILE, f"/{HOSTILE}"),
        server.listed("s2", HOSTILE, HOSTILE),
    ]
    requests = []
    page = open_session(size="wide", language=language)
    page.on("request", lambda request: requests.append(request.url))
    page.locator(".decision .accept:enabled").wait_for()
    for fold in page.locator(".card .fold[aria-expanded=false], .thinking .fold").all():
        fold.click()
    page.locator(".composer textarea").fill("/")
    page.locator(".composer textarea").fill("@x")
    page.locator(".composer-menu").wait_for()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert (
        page.locator(
            ".scroller img, .scroller svg[onload], .markdown button:not(.copy), main script"
        ).count()
        == 0
    )
    for link in page.locator(".scroller a").all():
        assert re.match(r"https?://|^$", link.get_attribute("href") or "")
    assert [url for url in requests if "evil" in url] == []
    assert page.locator(".scroller").is_visible()
    keep_screenshot(page, f"hostile-{language}")


def fill_long(server, count):
    for n in range(count // 4):
        server.entries += [
            prompt(4 * n, f"Prompt {n}: please look at file number {n}."),
            answer(4 * n + 1, f"I look at **file {n}** with `code`.\n\n- one\n- two\n\n```python\nprint({n})\n```\n", calls=1),
            card(4 * n + 2, "read_file", {"path": f"src/file_{n}.py"}, result=result("text\n" * 5)),
            answer(4 * n + 3, f"Nothing is wrong in file {n}. " * 6),
        ]  # fmt: skip
    server.seq = count


def test_older_pages_are_loaded_and_the_view_stays_where_it_is(server, open_session):
    fill_long(server, 1_000)
    page = open_session()
    page.get_by_text("Nothing is wrong in file 249.").first.wait_for()
    assert page.locator(".row").count() < 60
    page.evaluate("document.querySelector('.scroller').scrollTop = 300")
    page.get_by_text("Prompt 200:").first.wait_for()
    rows = page.locator(".row")
    wait_until(page, lambda: rows.first.get_attribute("aria-setsize") == "400")
    assert page.get_by_text("Prompt 200:").first.is_visible()
    assert page.evaluate("document.querySelector('.scroller').scrollTop") > 5_000


def test_a_row_above_that_grows_does_not_move_what_is_read(server, open_session):
    fill_long(server, 200)
    page = open_session()
    page.evaluate("document.querySelector('.scroller').scrollTop = 2000")
    page.wait_for_timeout(200)
    js = """() => { const top = document.querySelector('.scroller').getBoundingClientRect().top;
        const rows = [...document.querySelectorAll('.row')].sort((a, b) => a.rowIndex - b.rowIndex);
        const first = rows.find((row) => row.getBoundingClientRect().bottom > top);
        return {index: first.rowIndex, top: first.getBoundingClientRect().top}; }"""
    before = page.evaluate(js)
    above = before["index"] - 1
    grown = {**server.entries[above]}
    if grown["kind"] == "card":
        grown["state"] = "failed"
        grown["result"] = result("E_CMD_FAIL: no\n" * 20, "E_CMD_FAIL")
    else:
        grown["text"] = "A much longer text.\n\n" * 20
    server.add(grown)
    page.wait_for_timeout(300)
    after = page.evaluate(js)
    assert after["index"] == before["index"]
    assert abs(after["top"] - before["top"]) < 2
    # New text at the end does not move the page of a user who reads earlier text; a button leads there.
    server.add(prompt(200, "The newest prompt"))
    page.locator(".jump").get_by_text("1 new").click()
    page.get_by_text("The newest prompt").wait_for()


def test_few_rows_of_ten_thousand_are_in_the_document(server, open_session):
    fill_long(server, 10_000)
    server.replies["GET /entries"] = lambda asked: None
    page = open_session()
    page.get_by_text("Nothing is wrong in file 2499.").first.wait_for()
    streaming = answer(10_000, "", state="streaming")
    server.add(streaming)
    text = ""
    for n in range(60):
        add = (
            f"Sentence {n} of a long answer with `code` and **more**.\n\n"
            if n % 3 == 0
            else "words and words "
        )
        server.push(
            {
                "type": "text",
                "seq": 1,
                "entry": 10_000,
                "field": "text",
                "at": len(text),
                "add": add,
            }
        )
        text += add
        if n % 2:
            page.mouse.move(500, 300)
            page.mouse.wheel(0, -400 if n < 40 else 400)
            # The durations of frames are measured by tests/benchmarks/page.py.
            assert page.locator(".row").count() < 80
    page.locator("button.jump").click()
    page.get_by_text("Sentence 57 of a long answer").wait_for()
    assert page.locator(".row").count() < 80


@pytest.mark.parametrize("stamped", [False, True])
def test_a_connection_lost_during_a_catch_up_loses_nothing(server, open_session, stamped):
    """Also if a server gives each entry of a catch-up the number of its end."""
    server.entries = [prompt(0, "Go")]
    page = open_session(expected="WebSocket")
    server.refuses_streams = True
    server.disconnect()
    page.locator(".connection.reconnecting").wait_for(state="attached")
    server.add(answer(1, "The first answer"))
    server.add(prompt(2, "The second prompt"))
    server.cuts_catch_ups = True
    server.stamps_entries = stamped
    server.refuses_streams = False
    page.get_by_text("The first answer").wait_for()
    server.cuts_catch_ups = False
    page.get_by_text("The second prompt").wait_for()
    assert len(set(server.connects[1:])) == 1


def test_a_late_change_of_an_old_entry_leaves_no_hole(server, open_session):
    fill_long(server, 1_000)
    page = open_session()
    page.get_by_text("Nothing is wrong in file 249.").first.wait_for()
    server.add(prompt(0, "Changed late"))
    server.add(prompt(1_000, "The newest prompt"))
    page.get_by_text("The newest prompt").wait_for()
    page.evaluate("document.querySelector('.scroller').scrollTop = 300")
    page.get_by_text("Prompt 200:").first.wait_for()
    rows = page.locator(".row")
    for count in (401, 601, 801, 1_001):
        wait_until(page, lambda count=count: rows.first.get_attribute("aria-setsize") == str(count))
        page.evaluate("document.querySelector('.scroller').scrollTop = 0")
    page.get_by_text("Changed late").wait_for()
    page.get_by_text("Prompt 1: please").wait_for()


def test_a_session_whose_newest_entries_belong_to_an_agent_is_not_empty(server, open_session):
    other = {"agent": "explore-1", "run": "r2"}
    server.entries = [prompt(0, "Explore it"), *(answer(n, f"No. {n}", **other) for n in range(1, 500))]  # fmt: skip
    server.seq = 500
    page = open_session()
    page.get_by_text("Explore it").wait_for()
    assert page.get_by_text("What shall we work on?").count() == 0
