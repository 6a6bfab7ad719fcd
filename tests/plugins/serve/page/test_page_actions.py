"""What users do: write, steer, go back, manage sessions, change settings; by mouse and by keyboard."""

import base64
import json
import threading
from urllib.parse import parse_qsl

import pytest
import trio

from .conftest import SIZES, keep_screenshot, wait_until
from .fake_server import LOST, main_agent
from .samples import DIFF, TODO, answer, approval, card, every_state, prompt, result, started

pytestmark = pytest.mark.slow(cases=6, of="file")

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 32).decode()
RUNNING = {"running": True, "agents": [main_agent(running=True, state="running")]}


def write(page, text):
    page.locator(".composer textarea").fill(text)
    page.locator(".composer textarea").press("Enter")


def test_a_prompt_is_sent_and_the_draft_survives_a_reload(server, open_session):
    page = open_session()
    page.locator(".composer textarea").fill("Not yet sent")
    page.reload()
    page.locator(".connection.open").wait_for(state="attached")
    assert page.locator(".composer textarea").input_value() == "Not yet sent"
    page.locator(".composer textarea").press("Shift+Enter")
    assert page.locator(".composer textarea").input_value() == "Not yet sent\n"
    page.locator(".composer textarea").press("Enter")
    asked = server.wait_for("/prompts")
    assert asked.body == {"text": "Not yet sent"}
    assert asked.seen == str(server.seq)
    page.locator(".composer textarea:placeholder-shown").wait_for()


def test_a_prompt_whose_response_is_lost_is_sent_again_with_the_same_id(server, open_session):
    replies = [LOST, LOST]
    server.replies["POST /prompts"] = lambda asked: replies.pop() if replies else None
    page = open_session(expected="ERR_")
    write(page, "Only once")
    asked = [server.wait_for("/prompts", count=count) for count in (1, 2, 3)]
    page.locator(".composer textarea:placeholder-shown").wait_for()
    assert asked[0].request
    assert len({each.request for each in asked}) == 1
    write(page, "Only once")
    assert server.wait_for("/prompts", count=4).request != asked[0].request


def test_what_is_typed_while_a_prompt_is_sent_stays(server, open_session):
    page = open_session()
    box = page.locator(".composer textarea")
    held = []
    page.route("**/prompts", lambda route: held.append(route))
    write(page, "First")
    wait_until(page, lambda: held)
    box.press("End")
    box.press_sequentially(" and second")
    held[0].continue_()
    wait_until(page, lambda: box.input_value() == "and second")
    page.reload()
    page.locator(".connection.open").wait_for(state="attached")
    assert box.input_value() == "and second"


def test_unsent_text_comes_back_after_an_earlier_prompt(server, open_session):
    server.entries = [prompt(0, "Earlier")]
    page = open_session()
    box = page.locator(".composer textarea")
    box.fill("Not yet sent")
    box.press("Home")
    box.press("ArrowUp")
    assert box.input_value() == "Earlier"
    box.press("End")
    box.press("ArrowDown")
    assert box.input_value() == "Not yet sent"


def test_enter_that_confirms_a_word_of_an_input_method_does_not_send(server, open_session):
    page = open_session()
    page.locator(".composer textarea").fill("你好")
    page.evaluate("""() => {
        const input = document.querySelector('.composer textarea');
        input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}));
        input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', keyCode: 229, bubbles: true}));
    }""")
    page.wait_for_timeout(100)
    assert not any(each.path == "/prompts" for each in server.asked)


def test_enter_on_a_phone_makes_a_new_line(server, open_session):
    page = open_session(size="phone")
    page.locator(".composer textarea").fill("one")
    page.locator(".composer textarea").press("Enter")
    assert page.locator(".composer textarea").input_value() == "one\n"
    page.get_by_role("button", name="Send").click()
    server.wait_for("/prompts")


def test_a_working_agent_is_steered_and_stopped_and_texts_are_taken_back(server, open_session):
    server.state.update(RUNNING, queued=[{"id": "r5", "agent": "main", "text": "Later"}],
                        steering=[{"id": "m1", "agent": "main", "text": "Faster"}])  # fmt: skip
    page = open_session()
    write(page, "Use pytest")
    assert server.wait_for("/steering").body == {"text": "Use pytest"}
    page.locator(".queue li", has_text="Faster").get_by_role("button").click()
    server.wait_for("/steering/m1", "DELETE")
    wait_until(page, lambda: page.locator(".composer textarea").input_value() == "Faster")
    page.locator(".queue li", has_text="Later").get_by_role("button").click()
    assert server.wait_for("/stop").body == {"run": "r5"}
    page.get_by_role("button", name="Stop").first.click()
    assert server.wait_for("/stop", count=2).body == {}


def test_escape_leaves_the_input_and_stops_the_run_only_when_pressed_twice_outside(
    server, open_session
):
    server.state.update(RUNNING)
    page = open_session()
    page.clock.install()
    page.locator(".composer textarea").focus()
    page.keyboard.press("Escape")
    page.locator(".scroller:focus").wait_for()
    page.keyboard.press("Escape")
    page.clock.run_for(100)
    page.locator(".toast").get_by_text("Esc again stops the run").wait_for()
    page.clock.run_for(2_000)
    page.keyboard.press("Escape")  # too late: it counts as the first one
    page.clock.run_for(100)
    assert not any(each.path == "/stop" for each in server.asked)
    page.keyboard.press("Escape")
    assert server.wait_for("/stop").body == {}


def test_escape_in_a_field_of_the_bar_cancels_the_field(server, open_session):
    each = card(1, "bash", {"command": "pytest"}, "waiting_for_approval", risk="execute")
    server.entries = [prompt(0, "Go"), each]
    server.state.update(RUNNING, waiting=[approval("a1", each)])
    page = open_session()
    page.locator(".decision .edit:enabled").click()
    page.locator(".fields textarea").fill("pytest -x")
    page.keyboard.press("Escape")
    page.locator(".fields").wait_for(state="detached")
    page.locator(".decision .reject").click()
    page.locator(".decision .reason").fill("No.")
    page.keyboard.press("Escape")
    page.locator(".decision .reason").wait_for(state="detached")
    assert not any(each.path in ("/stop", "/approvals/a1") for each in server.asked)


def test_g_moves_the_focus_to_the_first_entry_and_capital_g_to_the_last(server, open_session):
    server.entries = [prompt(number, f"Prompt {number}") for number in range(120)]
    page = open_session()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.locator(".row:focus", has_text="Prompt 0").wait_for()
    page.keyboard.press("j")
    page.locator(".row:focus", has_text="Prompt 1").wait_for()
    page.keyboard.press("G")
    page.locator(".row:focus", has_text="Prompt 119").wait_for()
    page.keyboard.press("k")
    page.locator(".row:focus", has_text="Prompt 118").wait_for()
    assert page.locator(".row:focus").count() == 1


def test_escape_in_the_search_shows_all_sessions_again(server, open_session):
    page = open_session()
    page.get_by_label("Search sessions").fill("zebra")
    page.get_by_text("Nothing found.").wait_for()
    page.keyboard.press("Escape")
    page.locator(".session", has_text="Mend").wait_for()
    assert page.get_by_label("Search sessions").input_value() == ""
    assert page.get_by_text("Nothing found.").count() == 0


WATCHED = (
    "New session", "Stop", "Accept", "Reject", "Undo", "Redo", "Retry", "Continue",
    "Go back to before this prompt",
)  # fmt: skip


def test_who_may_only_watch_has_no_active_controls(server, open_session):
    each = card(1, "bash", {"command": "pytest"}, "waiting_for_approval", risk="execute")
    failed = card(2, "bash", {"command": "make"}, "failed", result=result("E_X: No", "E_X"))
    stopped = {**every_state()[10], "id": 3}
    server.entries = [prompt(0, "Go"), each, failed, stopped]
    server.state.update(RUNNING, waiting=[approval("a1", each)], files_seq=1)
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "watch"})
    server.replies["GET /files"] = (200, {"files": [{"path": "a.py"}], "redoable": True})
    page = open_session("wide")
    page.locator(".card-decision").wait_for()
    page.get_by_role("button", name="Redo").wait_for()
    for name in WATCHED:
        buttons = page.get_by_role("button", name=name, exact=name == "Stop")
        assert buttons.count() > 0, name
        assert all(button.is_disabled() for button in buttons.all()), name
    for menu in ("Actions for Mend the calculator", "Actions"):
        page.get_by_role("button", name=menu, exact=True).click()
        for action in ("Rename", "Fork", "Delete"):
            item = page.locator(".session-menu button, .choice", has_text=action)
            assert item.is_disabled(), action
        page.locator(".session-menu button, .choice", has_text="Export").and_(
            page.locator(":enabled")
        ).wait_for()
        page.keyboard.press("Escape")
    assert page.locator(".status .pick:enabled").count() == 0
    page.locator(".scroller").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.get_by_text("Your token does not have the right to do this.").wait_for()
    assert {asked.method for asked in server.asked} == {"GET"}


def test_who_may_only_prompt_does_not_go_back_or_decide(server, open_session):
    server.entries = [prompt(0, "Go")]
    server.state["files_seq"] = 1
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "prompt"})
    server.replies["GET /files"] = (200, {"files": [{"path": "a.py"}], "redoable": True})
    page = open_session("wide")
    page.get_by_role("button", name="Redo").wait_for()
    wait_until(page, lambda: page.locator(".composer textarea").is_enabled())
    for name in ("Go back to before this prompt", "Undo", "Redo"):
        assert page.get_by_role("button", name=name).is_disabled(), name
    assert page.get_by_role("button", name="New session").first.is_enabled()


def test_redo_needs_an_undo(server, open_session):
    server.state["files_seq"] = 1
    server.replies["GET /files"] = (200, {"files": [{"path": "a.py"}], "redoable": False})
    page = open_session("wide")
    page.get_by_role("button", name="Redo", disabled=True).wait_for()
    server.replies["GET /files"] = (200, {"files": [], "redoable": True})
    server.change(files_seq=2)
    page.get_by_role("button", name="Redo", disabled=False).wait_for()
    assert page.get_by_role("button", name="Redo").is_enabled()


def test_the_view_of_an_agent_prompts_steers_and_stops_that_agent(server, open_session):
    """Whether the main agent is running does not matter there."""
    agent = main_agent(name="explore-1", running=False)
    lead = main_agent(running=True, state="running")
    server.state.update(running=True, agents=[lead, agent], started=[started("1", "Explore it")])
    page = open_session(size="wide")
    page.locator(".agent button", has_text="Explore it").click()
    page.locator(".back").wait_for()
    assert page.get_by_role("button", name="Stop", exact=True).count() == 0
    write(page, "And the tests?")
    assert server.wait_for("/prompts").body == {"text": "And the tests?", "agent": "explore-1"}
    server.change(agents=[main_agent(), {**agent, "running": True}])
    page.get_by_role("button", name="Steer").wait_for()
    write(page, "Faster")
    assert server.wait_for("/steering").body == {"text": "Faster", "agent": "explore-1"}
    page.get_by_role("button", name="Stop", exact=True).click()
    assert server.wait_for("/stop").body == {"agent": "explore-1"}


def test_a_failed_run_is_continued(server, open_session):
    server.entries = every_state()[:11]
    page = open_session()
    page.locator(".outcome-box").get_by_role("button", name="Continue").click()
    server.wait_for("/retry")


def test_only_the_last_end_of_a_run_can_be_continued(server, open_session):
    server.entries = every_state()[:11]
    page = open_session()
    page.locator(".outcome-box").get_by_role("button", name="Continue").wait_for()
    server.add(prompt(11, "Something else", run="r2"))
    page.get_by_text("Something else").wait_for()
    page.locator(".outcome-box").get_by_role("button", name="Continue").wait_for(state="detached")
    server.add({**every_state()[10], "id": 12, "run": "r2"})
    page.locator(".outcome-box").nth(1).get_by_role("button", name="Continue").wait_for()
    assert page.get_by_role("button", name="Continue").count() == 1


def test_an_image_for_a_running_agent_waits_as_a_prompt(server, open_session):
    """A message that steers has no images."""
    server.state.update(RUNNING)
    page = open_session()
    page.locator("input[type=file]").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": base64.b64decode(PNG)}
    )
    page.locator(".images li").wait_for()
    write(page, "Look")
    assert len(server.wait_for("/prompts").body["images"]) == 1
    assert not any(each.path == "/steering" for each in server.asked)


def test_images_are_pasted_and_removed(server, open_session):
    page = open_session()
    paste = """(data) => {
        const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], 'a.png', {type: 'image/png'}));
        document.querySelector('.composer textarea').dispatchEvent(
            new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true, cancelable: true}));
    }"""
    page.evaluate(paste, PNG)
    page.evaluate(paste, PNG)
    page.locator(".images li").nth(1).wait_for()
    page.get_by_role("button", name="Remove a.png").first.click()
    write(page, "Look")
    body = server.wait_for("/prompts").body
    assert body["images"] == [{"media_type": "image/png", "data": PNG}]


def test_commands_and_files_are_completed(server, open_session):
    server.replies["GET /complete"] = (
        200,
        {"completions": [{"text": "src/calc.py", "kind": "file"}]},
    )
    server.replies["GET /commands"] = (
        200,
        {"commands": [{"name": "review", "mark": "/", "summary": "Review", "arguments": ""}]},
    )
    page = open_session()
    box = page.locator(".composer textarea")
    box.press_sequentially("/rev")
    page.locator(".composer-menu [role=option]").get_by_text("/review").wait_for()
    box.press("Tab")
    assert box.input_value() == "/review "
    box.press_sequentially("@cal")
    page.locator(".composer-menu").get_by_text("src/calc.py").wait_for()
    box.press("Enter")
    wait_until(page, lambda: box.input_value() == "/review @src/calc.py ")
    box.press("Enter")
    assert server.wait_for("/prompts").body["text"] == "/review @src/calc.py"
    write(page, "/compact the tests")
    assert server.wait_for("/compact").body == {"focus": "the tests"}


def test_rewinding_shows_what_changes_and_returns_the_prompt(server, open_session):
    server.entries = [prompt(0, "Mend it"), answer(1, "Done.")]
    server.replies["GET /rewind"] = (200, {"points": [{"to": 7, "text": "Mend it", "run": "r1"}]})
    diff = {
        "path": "src/calc.py",
        "what": "changed",
        "diff": "@@ -1 +1 @@\n-a\n+b",
        "note": "",
        "added": 1,
        "removed": 1,
    }
    server.replies["POST /rewind/preview"] = (
        200,
        {"diffs": [diff], "skipped": {"x.txt": "changed since"}},
    )
    server.replies["POST /rewind"] = (200, {"session": "s1", "text": "Mend it"})
    page = open_session()
    page.locator(".entry-prompt").hover()
    page.get_by_role("button", name="Go back to before this prompt").click()
    page.locator(".preview-files").get_by_text("src/calc.py").click()
    page.locator(".dialog tr.removed").wait_for()
    page.get_by_text("x.txt: changed since").wait_for()
    keep_screenshot(page, "rewind")
    page.locator(".dialog").get_by_role("button", name="Go back").click()
    assert server.wait_for("/rewind").body == {"to": 7, "conversation": True, "files": True}
    page.locator(".dialog").wait_for(state="detached")
    wait_until(page, lambda: page.locator(".composer textarea").input_value() == "Mend it")


def test_undoing_is_previewed(server, open_session):
    server.state["files_seq"] = 3
    server.replies["GET /files"] = (200, {"files": [{"path": "a.py", "added": 1, "removed": 2}]})
    diff = {"path": "a.py", "diff": "@@ -1 +1 @@\n-a\n+b", "note": "", "added": 1, "removed": 1}
    server.replies["POST /undo/preview"] = (200, {"diffs": [diff]})
    server.replies["GET /files/diff"] = (200, {"diffs": [diff]})
    page = open_session(size="wide")
    page.locator(".files button", has_text="a.py").click()
    page.locator(".dialog table.diff").wait_for()
    page.keyboard.press("Escape")
    page.locator(".panel-actions").get_by_role("button", name="Undo").click()
    page.locator(".dialog").get_by_role("button", name="Undo").wait_for()
    assert "/undo" not in [each.path for each in server.asked]
    page.locator(".dialog").get_by_role("button", name="Undo").click()
    server.wait_for("/undo")
    page.locator(".toast").get_by_text("Undone.").wait_for()


@pytest.mark.parametrize(
    ("language", "line", "name"),
    [
        ("en", "budget $4.10 of $5.00", "Budget of this session"),
        ("zh", "预算 $4.10 / $5.00", "此会话的预算"),
    ],
)
def test_budgets_are_shown_with_what_is_spent(server, open_session, language, line, name):
    """The status line has the one of which least is left; the panel has all of them."""
    day = {"budget": "day", "unit": "tokens", "spent": 100, "limit": 2_000, "nearly_spent": False}
    session = {"budget": "session", "unit": "dollars", "spent": 4.1, "limit": 5.0}
    server.state["budgets"] = [day, {**session, "nearly_spent": True}]
    server.entries = [prompt(0, "x"), answer(1, "y")]
    page = open_session(language=language)
    shown = page.locator(".facts-line .warning-text")
    shown.wait_for()
    assert shown.inner_text() == line
    assert shown.get_attribute("title") == name
    panel = page.locator(".facts-list").inner_text()
    assert name in panel
    assert "100" in panel


def test_the_panel_shows_todos_and_usage_and_the_timeline(server, open_session):
    server.entries = every_state()
    server.state["todo"] = [TODO]
    page = open_session(size="wide")
    page.locator(".todo-panel h3", has_text="2 of 4 done").wait_for()
    assert page.locator(".todo.in_progress").count() == 1
    page.locator(".todo.cancelled button").click()
    page.locator(".todo-more").get_by_text("cancelled").wait_for()
    wait_until(page, lambda: page.locator(".timeline .bar").count() >= 2)
    page.locator(".facts-list", has_text="75 %").wait_for()
    server.change(todo=[{**TODO, "completed": 4}])
    page.get_by_text("4 of 4 done").wait_for()


def test_sessions_are_searched_renamed_copied_exported_and_deleted(server, open_session):
    server.sessions.append(server.listed("s2", "Another one", "/home/ada/web"))
    server.replies["POST /fork"] = (200, {"id": "s9"})
    server.replies["GET /export"] = (200, b"# Conversation")
    page = open_session()
    page.get_by_label("Search sessions").fill("another")
    page.locator(".session", has_text="Mend").wait_for(state="detached")
    page.get_by_label("Search sessions").fill("")
    more = page.get_by_role("button", name="Actions for Mend the calculator")
    more.click()
    page.get_by_role("menuitem", name="Rename").click()
    page.locator(".dialog input").fill("New title")
    page.keyboard.press("Enter")
    assert server.wait_for("", "PATCH").body == {"title": "New title"}
    more.click()
    page.get_by_role("menuitem", name="Export").click()
    with page.expect_download() as download:
        page.locator(".choice", has_text="Markdown").click()
    assert download.value.suggested_filename == "Mend the calculator.md"
    more.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.locator(".dialog").get_by_role("button", name="Cancel").click()
    assert not any(each.method == "DELETE" for each in server.asked)
    more.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.locator(".dialog").get_by_role("button", name="Delete").click()
    assert server.wait_for("", "DELETE").seen == "1"
    page.get_by_text("Your sessions, in the browser").wait_for()


def test_a_refresh_of_the_list_keeps_the_older_sessions(server, open_session):
    listed = [
        server.listed(f"s{n}", f"Session {n}", "/home/ada/calc", updated=1_000.0 - n)
        for n in range(1, 101)
    ]

    def list_page(asked):
        query = dict(parse_qsl(asked.query))
        before = float(query.get("before", "inf"))
        found = [each for each in listed if each["updated"] < before]
        return 200, {"sessions": found[: int(query["limit"])]}

    server.replies["GET /sessions"] = list_page
    page = open_session()
    page.get_by_role("button", name="Older sessions").click()
    page.locator(".session", has_text="Session 100").wait_for(state="attached")
    listed.insert(0, server.listed("new", "The newest", "/home/ada/calc", updated=2_000.0))
    del listed[3]
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.locator(".session", has_text="The newest").wait_for(state="attached")
    assert page.locator(".session").count() == 100
    assert page.get_by_role("button", name="Older sessions").count() == 0


def test_an_export_for_programs_has_the_ending_of_its_format(server, open_session):
    server.replies["GET /export"] = (200, b"{}")
    page = open_session()
    page.get_by_role("button", name="Actions for Mend the calculator").click()
    page.get_by_role("menuitem", name="Export").click()
    with page.expect_download() as download:
        page.locator(".choice", has_text="JSON").click()
    assert download.value.suggested_filename == "Mend the calculator.json"


def test_changed_files_are_read_only_while_they_are_shown(server, open_session):
    server.replies["GET /files"] = (200, {"files": [{"path": "a.py", "added": 1, "removed": 2}]})
    page = open_session(size="tablet")
    for number in (1, 2, 3):
        server.change(files_seq=number, title=f"Title {number}")
    page.locator("h1", has_text="Title 3").wait_for()
    assert not any(each.path == "/files" for each in server.asked)
    page.get_by_role("button", name="Details").first.click()
    page.locator(".files button", has_text="a.py").wait_for()
    assert sum(each.path == "/files" for each in server.asked) == 1


def test_a_session_is_closed_after_a_question(server, open_session):
    page = open_session()
    page.get_by_role("button", name="Actions", exact=True).click()
    page.locator(".choice", has_text="Close the session").click()
    page.locator(".dialog").get_by_role("button", name="Cancel").click()
    page.locator(".dialog").wait_for(state="detached")
    assert not any(each.path == "/close" for each in server.asked)
    write(page, "/close ")
    page.locator(".dialog").get_by_role("button", name="Close the session").click()
    assert server.wait_for("/close").seen == "1"


def test_lasting_approvals_are_listed_and_revoked(server, open_session):
    grants = ["bash: pytest *", "write_file"]

    def revoke(asked):
        grants.remove(dict(parse_qsl(asked.query))["scope"])

    server.replies["GET /grants"] = lambda asked: (200, {"grants": list(grants)})
    server.replies["DELETE /grants"] = revoke
    page = open_session()
    page.get_by_role("button", name="Actions", exact=True).click()
    page.locator(".choice", has_text="Lasting approvals").click()
    page.get_by_role("button", name="Revoke bash: pytest *").click()
    page.locator(".grants li", has_text="pytest").wait_for(state="detached")
    assert grants == ["write_file"]
    page.get_by_role("button", name="Revoke write_file").click()
    page.get_by_text("There are no lasting approvals.").wait_for()


def test_who_may_only_watch_sees_lasting_approvals(server, open_session):
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "watch"})
    server.replies["GET /grants"] = (200, {"grants": ["bash: pytest *"]})
    page = open_session()
    page.get_by_role("button", name="Actions", exact=True).click()
    page.locator(".choice", has_text="Lasting approvals").click()
    page.locator(".grants li", has_text="pytest").wait_for()
    assert page.locator(".grants button").count() == 0


def test_prompts_that_are_not_loaded_can_be_gone_back_to(server, open_session):
    points = [{"to": 7, "text": "The first", "run": "r1", "files": ["a.py"], "added": 4, "removed": 2},
              {"to": 9, "text": "The second", "run": "r2", "files": [], "added": 0, "removed": 0}]  # fmt: skip
    server.replies["GET /rewind"] = (200, {"points": points})
    server.replies["POST /rewind"] = (200, {"session": "s1", "text": "The first"})
    page = open_session()
    write(page, "/rewind ")
    page.locator(".choice", has_text="1 file · +4 −2").click()
    page.locator(".dialog").get_by_text("The first").wait_for()
    page.locator(".dialog").get_by_role("button", name="Go back").click()
    assert server.wait_for("/rewind").body == {"to": 7, "conversation": True, "files": False}


def test_model_mode_and_policy_are_chosen(server, open_session):
    facts = {"window": 1000, "input": 1, "output": 2, "usable": True, "problem": ""}
    models = [{**facts, "name": f"openai/{name}", "current": False} for name in ("alpha", "beta")]
    server.replies["GET /models"] = (200, {"models": models})
    server.replies["GET /modes"] = (
        200,
        {"modes": [{"name": "plan", "description": "Plans only", "current": False}]},
    )
    page = open_session()
    for button, choice, body in (
        ("Choose a model", "openai/beta", {"model": "openai/beta"}),
        ("Choose what the agent may do", "plan", {"mode": "plan"}),
        ("Choose which calls need approval", "Read only", {"approve": "readonly"}),
    ):
        count = sum(each.method == "PATCH" for each in server.asked)
        page.locator(f".status button[title='{button}']").click()
        page.locator(".choice", has_text=choice).first.click()
        assert server.wait_for("", "PATCH", count + 1).body == body


def test_settings_change_language_theme_and_the_session(server, open_session):
    facts = {"key": "web.enabled", "help": "", "rights": "administer", "at_once": False}
    settings = [{**facts, "name": "web_search", "value": True}, {**facts, "name": "images", "value": None},
                {**facts, "name": "tool_protocol", "value": "auto"}, {**facts, "name": "approve", "value": "auto"}]  # fmt: skip
    server.replies["GET /settings"] = (200, {"settings": settings})
    page = open_session()
    page.get_by_role("button", name="Settings").click()
    page.locator(".setting", has_text="Web search").locator("input").uncheck()
    assert server.wait_for("/settings", "PATCH").body == {"web_search": False}
    page.locator(".setting", has_text="not installed").wait_for()
    page.locator(".setting", has_text="Theme").locator("select").select_option("dark")
    wait_until(page, lambda: page.evaluate("document.documentElement.dataset.theme") == "dark")
    page.locator(".setting", has_text="Language").locator("select").select_option("zh")
    page.get_by_role("heading", name="设置").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("搜索会话").wait_for()
    wait_until(page, lambda: page.evaluate("document.documentElement.lang") == "zh-CN")


def has_focus(page):
    """Return whether something on the page is focused, once it has drawn."""
    page.evaluate(
        "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
    )
    return page.evaluate("document.activeElement !== document.body")


def test_a_new_session_by_key_waits_for_the_rights(server, open_page):
    """A key can be faster than the first answer of the server, which tells the user's rights."""
    may_answer = threading.Event()
    me = {"name": "ada", "rights": "administer", "instance": "i1", "shared": False}

    async def answer_late(_asked):
        # Other requests, such as those of the page's modules, are answered meanwhile.
        assert await trio.to_thread.run_sync(may_answer.wait, 8)
        return 200, me

    server.replies["GET /me"] = answer_late
    page = open_page(server.url)
    page.get_by_role("button", name="New session").first.wait_for()
    page.keyboard.press("n")
    may_answer.set()
    page.locator(".connection.open").wait_for(state="attached")
    assert page.locator(".toast").count() == 0


def test_five_tasks_with_the_keyboard_alone(server, open_page):
    """Start a session, prompt, approve, read the diff, and go back; the focus is never lost."""
    page = open_page(server.url)
    page.get_by_role("button", name="New session").first.wait_for()
    page.keyboard.press("n")
    page.locator(".connection.open").wait_for(state="attached")
    page.keyboard.type("Mend it")
    page.keyboard.press("Enter")
    server.wait_for("/prompts")
    assert has_focus(page)
    each = card(1, "bash", {"command": "pytest"}, "waiting_for_approval", risk="execute")
    server.add(prompt(0, "Mend it"))
    server.add(each)
    server.replies["facts a1"] = {"text": "pytest"}
    server.change(waiting=[approval("a1", each)])
    page.locator(".decision .accept:enabled").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    server.wait_for("/approvals/a1")
    diff = "@@ -1 +1 @@\n-a\n+b"
    server.add(card(1, "edit_file", {"path": "a"}, risk="write", result=result("ok", diff=diff)))
    server.change(waiting=[])
    page.locator(".decision").wait_for(state="detached")
    assert has_focus(page)
    page.keyboard.press("k")
    page.locator(".entry-card:focus").wait_for()
    page.keyboard.press("o")
    page.locator(".entry-card .fold[aria-expanded=false]").wait_for()
    page.keyboard.press("o")
    page.locator(".entry-card tr.added").wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.locator(".entry-card:focus").wait_for()
    server.replies["GET /rewind"] = (200, {"points": [{"to": 1, "text": "Mend it", "run": "r1"}]})
    page.keyboard.press("i")
    page.keyboard.type("/rewind ")
    page.keyboard.press("Enter")
    page.locator(".choice", has_text="Mend it").wait_for()
    page.keyboard.press("Enter")
    page.locator(".dialog").get_by_role("button", name="Go back").and_(
        page.locator(":enabled")
    ).wait_for()
    page.locator(".dialog").get_by_role("button", name="Go back").press("Enter")
    server.wait_for("/rewind")
    page.locator(".dialog").wait_for(state="detached")
    assert has_focus(page)


CASES = [
    (size, language, theme)
    for size in SIZES
    for language in ("en", "zh")
    for theme in ("light", "dark")
]


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("size", "language", "theme"), CASES)
def test_the_page_fits_and_has_no_serious_finding(server, open_session, axe, size, language, theme):
    server.entries = every_state()
    server.state.update(
        RUNNING, todo=[TODO], started=[started("1", "Explore the project")],
        waiting=[approval("a1", server.entries[14])], files_seq=4,
        queued=[{"id": "r9", "agent": "main", "text": "Then publish a release."}],
    )  # fmt: skip
    server.replies["GET /files"] = (
        200,
        {"files": [{"path": "src/calc.py", "added": 3, "removed": 1}]},
    )
    server.replies["facts a1"] = {"text": "pytest -q", "covers": "pytest", "rule": "bash: pytest *"}
    page = open_session(size=size, language=language, theme=theme)
    page.locator(".decision .accept:enabled").wait_for()
    page.wait_for_timeout(150)
    name = f"{SIZES[size][0]}-{language}-{theme}"
    keep_screenshot(page, f"session-{name}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    findings = axe(page)
    page.evaluate("document.querySelector('.scroller').scrollTop = 0")
    page.locator(".entry-prompt").first.wait_for()
    keep_screenshot(page, f"top-{name}")
    findings += axe(page)
    page.locator(".scroller").focus()
    page.keyboard.press("?")
    page.locator(".dialog").wait_for()
    keep_screenshot(page, f"keys-{name}")
    findings += axe(page)
    assert findings == [], json.dumps(findings, indent=1)


def test_only_who_may_approve_runs_commands(server, open_session):
    server.replies["GET /me"] = (200, {"name": "bob", "rights": "prompt"})
    server.state["shell"] = [
        {"id": "l1", "command": "sleep 9", "user": "ada", "running": True, "output": ""}
    ]
    page = open_session()
    stop = page.locator(".shell-lines").get_by_role("button", name="Stop")
    assert stop.is_disabled()
    page.locator(".composer textarea").fill("!ls")
    assert page.locator(".command-mark").count() == 0


def test_a_model_that_cannot_be_used_is_marked_and_cannot_be_chosen(server, open_session):
    facts = {"window": 1000, "input": None, "output": None, "current": False}
    server.replies["GET /models"] = (200, {"models": [
        {**facts, "name": "a/good", "usable": True, "problem": ""},
        {**facts, "name": "b/bad", "usable": False, "problem": "no key in B_KEY"},
        {**facts, "name": "c/bad", "usable": False, "problem": ""},
    ]})  # fmt: skip
    page = open_session()
    page.locator(".status button[title='Choose a model']").click()
    bad = page.locator(".choice", has_text="b/bad")
    bad.get_by_text("cannot be used: no key in B_KEY").wait_for()
    assert bad.is_disabled()
    assert page.locator(".choice", has_text="c/bad").is_disabled()
    assert page.locator(".choice", has_text="a/good").is_enabled()


def test_an_unused_session_of_this_browser_is_used_instead_of_a_new_one(server, open_session):
    server.state.update(runs=0, title="")
    page = open_session()
    page.locator(".scroller").focus()
    server.sessions.append(server.listed("s2", "", "/home/ada/calc"))
    server.replies["POST /sessions"] = (200, {**server.state, "id": "s2"})
    server.replies["GET /sessions/s2"] = (200, {**server.state, "id": "s2", "runs": 0})
    page.keyboard.press("n")
    wait_until(page, lambda: page.url.endswith("#/s/s2"))
    page.locator(".session.current").wait_for()
    page.locator(".session", has_text="Mend").locator("a").click()
    wait_until(page, lambda: page.url.endswith("#/s/s1"))
    page.locator(".scroller").focus()
    page.keyboard.press("n")
    wait_until(page, lambda: page.url.endswith("#/s/s2"))
    made = [each for each in server.asked if (each.method, each.path) == ("POST", "/sessions")]
    assert len(made) == 1
    server.replies["GET /sessions/s2"] = (200, {**server.state, "id": "s2", "runs": 1})
    page.locator(".scroller").focus()
    page.keyboard.press("n")
    server.wait_for("/sessions", count=2)


def test_enter_in_the_search_opens_the_first_hit_and_menus_have_ends(server, open_session):
    server.sessions += [server.listed(f"s{n}", f"Other {n}", "/home/ada/calc") for n in (2, 3)]
    page = open_session()
    page.locator("#session-search").fill("other 3")
    page.keyboard.press("Enter")
    wait_until(page, lambda: page.url.endswith("#/s/s3"))
    page.locator("#session-search").fill("")
    page.get_by_role("button", name="Actions for Other 2").click()
    page.locator(".session-menu button:focus", has_text="Rename").wait_for()
    page.keyboard.press("End")
    page.locator(".session-menu button:focus", has_text="Delete").wait_for()
    page.keyboard.press("Home")
    page.locator(".session-menu button:focus", has_text="Rename").wait_for()
    # Opening a session and a menu changes nothing.
    assert {each.method for each in server.asked} == {"GET"}


def test_dialogs_that_change_files_begin_with_the_safe_choice(server, open_session):
    preview = {
        "diffs": [{"path": "a.py", "what": "changed", "diff": DIFF, "added": 1, "removed": 1}]
    }
    server.replies["POST /undo/preview"] = (200, preview)
    server.replies["POST /rewind/preview"] = (200, preview)
    server.replies["GET /rewind"] = (200, {"points": [{"to": 1, "text": "Mend", "run": "r1"}]})
    server.entries = [prompt(0, "Mend")]
    page = open_session()
    for command in ("/undo ", "/rewind ", "/close "):
        page.locator(".composer textarea").fill(command)
        page.keyboard.press("Enter")
        if command == "/rewind ":
            page.locator(".choice", has_text="Mend").click()
        page.locator(".dialog button:focus", has_text="Cancel").wait_for()
        page.keyboard.press("Enter")
        page.locator(".dialog").wait_for(state="detached")
    changes = [each.path for each in server.asked if each.method == "POST"]
    assert not {"/undo", "/rewind", "/close"} & set(changes)


def test_the_status_line_of_a_phone_cuts_no_word(server, open_session):
    server.state["branch"] = "a-branch-with-a-long-name"
    page = open_session("phone")
    page.locator(".facts-line span").first.wait_for()
    # Each fact is within the line, or in a further line, which is hidden.
    places = page.evaluate("""() => {
        const line = document.querySelector('.facts-line').getBoundingClientRect();
        return [...document.querySelectorAll('.facts-line > span')].map((each) => {
            const box = each.getBoundingClientRect();
            return box.top >= line.bottom - 1 || (box.right <= line.right + 1 && line.right <= innerWidth);
        });
    }""")
    assert all(places)
    assert page.evaluate("document.querySelector('.status').scrollWidth <= innerWidth")


def test_who_may_not_decide_is_not_waited_for(server, open_session):
    each = card(1, "bash", {"command": "pytest"}, "waiting_for_approval", risk="execute")
    server.entries = [prompt(0, "Go"), each]
    server.sessions[0]["waiting"] = 1
    server.state["waiting"] = [approval("a1", each)]
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "watch"})
    page = open_session()
    page.locator(".session", has_text="1 waits for a decision").wait_for()
    page.locator(".decision .segments button").first.wait_for()
    assert page.locator(".decision-scope button:enabled").count() == 0
    assert page.get_by_label("Add images").is_disabled()
    assert "(1)" not in page.title()


def test_a_shared_page_makes_no_other_session(server, open_session):
    server.replies["GET /me"] = (200, {"name": "ada", "rights": "administer", "shared": True})
    page = open_session()
    assert page.get_by_role("button", name="New session").is_disabled()
    page.locator(".scroller").focus()
    page.keyboard.press("n")
    page.get_by_text("A shared page has one session.").wait_for()
