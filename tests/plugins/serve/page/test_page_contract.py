"""Every state and action that the page was specified with, and the test that covers it.

The rows are those of the event, action and result tables for tool calls, sub-agents and todo lists, with
the states of their diagrams. What a row shows is tested here in both languages at 390, 1,024 and 1,920
pixels; what it does is tested once, in the test that the row names.
"""

import ast
import re
from pathlib import Path

import pytest

from .conftest import SIZES, keep_screenshot, wait_until
from .samples import TODO, answer, approval, card, entry, every_state, prompt, result, started

STATES = "test_each_state_of_a_call_is_named"
AGENTS = "test_each_state_of_a_sub_agent_is_named_and_marked"
TODOS = "test_the_plan_shows_each_state_and_the_calls_of_a_step"

CONTRACT = {
    # Tool calls
    "call: mounted, arguments are shown": [STATES],
    "call: mounted, arguments that are not JSON": ["test_invalid_arguments_are_shown_as_they_are"],
    "call: streaming": [STATES, "test_streaming_arguments_grow"],
    "call: waits for approval, with Accept and Reject": [STATES, "test_a_card_decides_too"],
    "call: nobody answers in time": [STATES, "test_a_card_says_who_decided"],
    "call: Accept, it runs": ["test_a_card_follows_its_call_through_every_state"],
    "call: Reject, it is rejected": [
        "test_a_card_follows_its_call_through_every_state",
        "test_two_pages_show_one_approval_and_the_first_answer_wins",
    ],
    "call: completed, with result and duration": [STATES],
    "call: failed, with error and Retry": [STATES, "test_a_failed_call_is_repeated"],
    "call: folded and unfolded unless it streams": [
        "test_every_state_is_shown_and_folds_except_while_streaming"
    ],
    "call: arguments are copied in each state": [
        STATES,
        "test_copying_confirms_for_a_second_and_a_half",
    ],
    "call: Retry, it runs again": [
        "test_a_card_follows_its_call_through_every_state",
        "test_a_failed_call_is_retried_and_guarded_again",
    ],
    "call: answered elsewhere while a reason is written": [
        "test_a_reason_stays_when_another_page_answers_and_typing_accepts_nothing",
        "test_every_field_of_the_bar_stays_when_the_time_runs_out",
    ],
    "call: cut off by the end of hilum": [
        "test_a_call_that_was_cut_off_by_the_end_of_hilum_is_not_running"
    ],
    "call: its text scrolls, its buttons stay": ["test_only_the_text_of_a_call_scrolls"],
    # The page of a session
    "session: a prompt starts a run": ["test_a_prompt_is_sent_and_the_draft_survives_a_reload"],
    "session: text streams": ["test_markdown_streams_by_blocks_and_finished_blocks_stay"],
    "session: the run ends": ["test_the_composer_follows_the_run"],
    # Sub-agents
    "agent: started": [AGENTS],
    "agent: its turn and its calls are counted": [AGENTS],
    "agent: folded and unfolded": ["test_sub_agents_show_progress_and_open"],
    "agent: completed, green, with its answer": [AGENTS, "test_sub_agents_show_progress_and_open"],
    "agent: failed, red, with its error": [AGENTS],
    "agent: cancelled with its parent, grey": [AGENTS],
    # Todo lists
    "todo: written, the panel follows": ["test_the_panel_shows_todos_and_usage_and_the_timeline"],
    "todo: pending": [TODOS],
    "todo: in progress": [TODOS],
    "todo: completed": [TODOS],
    "todo: cancelled": [TODOS],
    "todo: opened, with its calls": [TODOS],
    "todo: all opened and folded": [TODOS],
    "todo: the progress is counted again": ["test_the_end_of_a_run_says_what_is_left_of_the_plan"],
    "todo: the run completes": ["test_the_end_of_a_run_says_what_is_left_of_the_plan"],
    "todo: the run is cancelled": ["test_the_end_of_a_run_says_what_is_left_of_the_plan"],
    # The stream
    "stream: thinking": ["test_thinking_is_folded", "test_what_the_agent_does_is_announced"],
    "stream: a call and its result": ["test_a_card_follows_its_call_through_every_state"],
    "stream: the rules of the project were read again": ["test_what_the_agent_does_is_announced"],
}

COMBINATIONS = [(size, language) for size in SIZES for language in ("en", "zh")]
each_size_and_language = pytest.mark.parametrize(("size", "language"), COMBINATIONS)


def test_each_row_names_tests_that_exist():
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for row, tests in CONTRACT.items():
        assert tests, row
        assert set(tests) <= found, row


def color_of(locator):
    """Return the colour of an element's text as the name of its variable in the style sheet."""
    return locator.evaluate("""(element) => {
        const probe = document.createElement('i');
        document.body.append(probe);
        const found = ['added', 'danger', 'warn', 'accent', 'info', 'quiet', 'text'].find((name) => {
            probe.style.color = `var(--${name})`;
            return getComputedStyle(probe).color === getComputedStyle(element).color;
        });
        probe.remove();
        return found ?? getComputedStyle(element).color;
    }""")


LATE = result("E_APPROVAL_TIMEOUT: No", "E_APPROVAL_TIMEOUT")
CALLS = [
    # State, further fields, its texts in both languages, colour of the mark
    ("completed", {"result": result("4 passed")}, "800 ms", "800 ms", "added"),
    ("failed", {"result": result("E_X: Broken", "E_X")}, "E_X", "E_X", "danger"),
    ("failed", {"result": result("Broken")}, "failed", "失败", "danger"),
    ("failed", {"began": 0, "result": result("E_REJECTED: No", "E_REJECTED")}, "rejected", "已拒绝", "quiet"),
    ("failed", {"began": 0, "decided_by": "timeout", "result": LATE}, "rejected", "已拒绝", "quiet"),
    ("failed", {"began": 0, "result": result("E_DENIED: No", "E_DENIED")}, "rejected", "已拒绝", "quiet"),
    ("failed", {"result": result("E_DENIED: No", "E_DENIED")}, "E_DENIED", "E_DENIED", "danger"),
    ("interrupted", {}, "stopped", "已停止", "quiet"),
    ("running", {}, "running", "运行中", "quiet"),
    ("pending", {"began": 0}, "waiting to run", "等待运行", "quiet"),
    ("waiting_for_approval", {"began": 0}, "waiting for approval", "等待批准", "warn"),
]  # fmt: skip


@pytest.mark.slow(cases=2)
@each_size_and_language
def test_each_state_of_a_call_is_named(server, open_session, size, language):
    server.entries = [prompt(0, "Go")]
    page = open_session(size, language=language)
    chinese = language == "zh"
    copy, accept, reject, retry = (
        ("复制参数", "同意", "拒绝", "重试")
        if chinese
        else ("Copy arguments", "Accept", "Reject", "Retry")
    )
    for number, (state, fields, english_text, chinese_text, color) in enumerate(CALLS):
        each = card(1, "bash", {"command": "pytest -q"}, state, risk="execute", **fields)
        each["call"]["id"] = f"n{number}"
        waiting = [approval("a1", each)] if state == "waiting_for_approval" else []
        server.add(each)
        server.change(waiting=waiting)
        shown = page.locator(f".card[data-call='n{number}']")
        text = shown.locator(".state-text")
        text.wait_for()
        assert text.inner_text().strip() == (chinese_text if chinese else english_text)
        assert text.is_visible()
        assert "pytest -q" in shown.locator(".subject").inner_text()
        assert color_of(shown.locator(".state-icon")) == color, state
        if shown.locator(".fold").get_attribute("aria-expanded") == "false":
            shown.locator(".fold").click()
        shown.get_by_role("button", name=copy).wait_for()
        is_failed = color == "danger"
        assert shown.get_by_role("button", name=retry, exact=True).count() == int(is_failed), state
        for name in (accept, reject):
            button = shown.get_by_role("button", name=name, exact=True)
            button.wait_for(state="visible" if waiting else "detached")
        if fields.get("result"):
            assert fields["result"]["parts"][0]["text"] in shown.inner_text()
        if fields.get("decided_by"):
            assert ("无人及时回答" if chinese else "nobody answered in time") in shown.inner_text()
    server.add(answer(1, "", state="streaming", arguments={"x": '{"path": "a'}, tools={"x": "read_file"}))  # fmt: skip
    server.change(waiting=[])
    streaming = page.locator(".card.streaming")
    streaming.wait_for()
    assert streaming.locator(".state-text").inner_text() == ("正在生成" if chinese else "writing")
    assert '{"path": "a' in streaming.locator(".live").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_card_follows_its_call_through_every_state(server, open_session):
    """From its arguments to its approval, its failure, its retry, its end, and a rejected one."""
    command = {"command": "pytest -q"}
    server.entries = [prompt(0, "Go"), answer(1, "", state="streaming", tools={"c2": "bash"},
                                              arguments={"c2": '{"command": "pytest'})]  # fmt: skip
    page = open_session()
    page.locator(".card.streaming").wait_for()
    waiting = card(2, "bash", command, "waiting_for_approval", risk="execute", began=0)
    server.add(answer(1, "", calls=1))
    server.add(waiting)
    server.change(waiting=[approval("a2", waiting)])
    page.locator(".decision .accept:enabled").wait_for()
    assert page.locator(".card").count() == 1
    page.locator(".card.waiting .card-decision").get_by_role("button", name="Accept").click()
    assert server.wait_for("/approvals/a2").body["accepted"] is True
    server.add(card(2, "bash", command, "running", risk="execute", output="....\n"))
    server.change(waiting=[])
    page.locator(".card.running .live", has_text="....").wait_for()
    failed = card(2, "bash", command, "failed", risk="execute", result=result("E_X: No", "E_X"))
    server.add(failed)
    page.locator(".card.failed").get_by_role("button", name="Retry", exact=True).click()
    server.wait_for("/calls/c2/repeat")
    server.add({**failed, "repeated_by": "c3"})
    server.add(card(3, "bash", command, "running", risk="execute", repeats="c2"))
    page.locator(".card.running .tag", has_text="retry").wait_for()
    page.get_by_role("button", name="Retry", exact=True).wait_for(state="detached")
    server.add(card(3, "bash", command, risk="execute", repeats="c2", result=result("4 passed")))
    page.locator(".card.completed .state-text", has_text="800 ms").wait_for()
    waiting = card(4, "bash", {"command": "rm x"}, "waiting_for_approval", risk="execute", began=0)
    server.add(waiting)
    server.change(waiting=[approval("a4", waiting)])
    page.locator(".card.waiting .card-decision").get_by_role("button", name="Reject").click()
    page.locator(".decision .reason").fill("Keep it.")
    page.keyboard.press("Enter")
    body = server.wait_for("/approvals/a4").body
    assert (body["accepted"], body["reason"]) == (False, "Keep it.")
    server.add(card(4, "bash", {"command": "rm x"}, "failed", risk="execute", began=0,
                    decided_by="user", result=result("E_REJECTED: Keep it.", "E_REJECTED")))  # fmt: skip
    server.change(waiting=[])
    rejected = page.locator(".card.rejected")
    rejected.locator(".card-reason", has_text="Keep it.").wait_for()
    assert rejected.get_by_role("button", name="Retry").count() == 0
    assert page.locator(".card").count() == 3


def test_the_composer_follows_the_run(server, open_session):
    page = open_session()
    assert page.get_by_role("button", name="Stop", exact=True).count() == 0
    lead = server.state["agents"][0]
    server.change(running=True, agents=[{**lead, "running": True}])
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    assert page.locator(".composer textarea").get_attribute("placeholder") == "Steer the agent"
    server.change(running=False, agents=[lead])
    page.get_by_role("button", name="Stop", exact=True).wait_for(state="detached")
    page.get_by_role("button", name="Send").wait_for()


AGENT_STATES = [
    ("queued", "queued", "排队中", "accent"),
    ("running", "running", "运行中", "accent"),
    ("waiting_for_approval", "waiting for approval", "等待批准", "accent"),
    ("completed", "completed", "已完成", "added"),
    ("failed", "failed", "失败", "danger"),
    ("timed_out", "timed out", "已超时", "danger"),
    ("cancelled", "cancelled", "已取消", "quiet"),
    ("stopped", "stopped", "已停止", "quiet"),
    ("interrupted", "interrupted", "已中断", "quiet"),
]


@pytest.mark.slow(cases=1)
@each_size_and_language
def test_each_state_of_a_sub_agent_is_named_and_marked(server, open_session, size, language):
    server.entries = [prompt(0, "Go"), card(1, "task", {"description": "Explore it"}, "running")]
    lead = server.state["agents"][0]
    server.state["agents"] = [lead, {**lead, "name": "explore-1", "turn": 3, "running": True}]
    page = open_session(size, language=language)
    shown = page.locator(".card.sub-agent")
    for status, english, chinese, color in AGENT_STATES:
        ended = status not in ("queued", "running", "waiting_for_approval")
        facts = {"ended": True, "answer": f"It was {status}.", "seconds": 12.4} if ended else {}
        server.change(started=[started("1", "Explore it", status, call="c1", **facts)])
        tag = shown.locator(f".tag.{status}")
        tag.wait_for()
        assert tag.inner_text() == (chinese if language == "zh" else english)
        assert color_of(shown.locator(".state-icon")) == color, status
        if ended:
            assert shown.locator(".agent-progress").count() == 0
            if shown.locator(".fold").get_attribute("aria-expanded") == "false":
                shown.locator(".fold").click()
            shown.locator(".agent-answer", has_text=f"It was {status}.").wait_for()
        else:
            progress = shown.locator(".agent-progress").inner_text()
            expected = "第 3/15 轮 · 5 次调用" if language == "zh" else "turn 3 of 15 · 5 calls"
            assert progress.strip().startswith(expected)
            assert shown.locator("progress").evaluate("(bar) => bar.value") == pytest.approx(0.4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep_screenshot(page, f"agent-{SIZES[size][0]}-{language}")


def todo_write(identity, *items, merge=True):
    todos = [{"id": item, "content": f"Step {item}", "status": status} for item, status in items]
    return card(identity, "todo_write", {"todos": todos, "merge": merge}, result=result("ok"))


def show_panel(page, size):
    """Open the panel where it is a drawer."""
    if size != "wide":
        page.locator(".open-right").click()
    page.locator(".panel").wait_for()


@pytest.mark.slow(cases=1)
@each_size_and_language
def test_the_plan_shows_each_state_and_the_calls_of_a_step(server, open_session, size, language):
    server.entries = [
        prompt(0, "Go"),
        todo_write(1, ("1", "in_progress"), ("2", "pending"), merge=False),
        card(2, "read_file", {"path": "src/calc.py"}, result=result("ok")),
        todo_write(3, ("1", "completed"), ("2", "in_progress")),
        card(4, "edit_file", {"path": "src/calc.py"}, result=result("ok")),
        {**card(5, "grep", {"pattern": "not of this agent"}), "agent": "explore-1"},
        todo_write(6, ("2", "completed"), ("3", "in_progress")),
        card(7, "bash", {"command": "pytest -q"}, "running"),
    ]
    server.state.update(todo=[TODO], running=True)
    server.state["agents"][0]["running"] = True
    page = open_session(size, language=language)
    show_panel(page, size)
    panel = page.locator(".todo-panel")
    words = (
        {"done": "已完成 2/4", "all": "全部展开", "fold": "全部折叠"}
        if language == "zh"
        else {"done": "2 of 4 done", "all": "Unfold all", "fold": "Fold all"}
    )
    assert words["done"] in panel.locator("h3").inner_text()
    assert panel.locator("progress").evaluate("(bar) => bar.value / bar.max") == 0.5
    statuses = panel.locator(".todo").evaluate_all("(all) => all.map((each) => each.className)")
    assert statuses == [f"todo {each['status']}" for each in TODO["items"]]
    mark = "(item, part) => getComputedStyle(item.querySelector(part))"
    cancelled = panel.locator(".todo.cancelled")
    assert "line-through" in cancelled.evaluate(f"{mark[:-1]}).textDecorationLine", ".todo-text")
    assert panel.locator(".todo.in_progress").evaluate(f"{mark[:-1]}).animationName", ".todo-mark") == "pulse"  # fmt: skip
    panel.get_by_role("button", name=words["all"]).click()
    details = panel.locator(".todo-more")
    wait_until(page, lambda: details.count() == 5)
    assert "read_file" in details.nth(0).inner_text()
    assert "edit_file" in details.nth(1).inner_text()
    assert "bash" in details.nth(2).inner_text()
    assert "pytest -q" in details.nth(2).inner_text()
    names = ("completed", "in progress", "pending", "cancelled")
    if language == "zh":
        names = ("已完成", "进行中", "待处理", "已取消")
    for text, name in zip((0, 2, 3, 4), names, strict=True):
        assert name in details.nth(text).inner_text()
    assert "not of this agent" not in panel.inner_text()
    keep_screenshot(page, f"plan-{SIZES[size][0]}-{language}")
    panel.get_by_role("button", name=words["fold"]).click()
    wait_until(page, lambda: details.count() == 0)
    panel.locator(".todo.in_progress button").click()
    panel.locator(".todo-calls button", has_text="pytest").click()
    page.locator(".card[data-call='c7']").wait_for()
    if size != "wide":
        page.locator(".panel").wait_for(state="hidden")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow(cases=1)
@each_size_and_language
def test_the_end_of_a_run_says_what_is_left_of_the_plan(server, open_session, size, language):
    server.state["agents"][0]["running"] = True
    server.state.update(todo=[TODO], running=True)
    page = open_session(size, language=language)
    show_panel(page, size)
    panel = page.locator(".todo-panel")
    panel.wait_for()
    assert panel.locator(".todo-end").count() == 0
    lead = {**server.state["agents"][0], "running": False}
    server.change(running=False, agents=[lead])
    left = "有 2 个步骤未完成" if language == "zh" else "2 steps are not done"
    panel.locator(".todo-end", has_text=left).wait_for()
    server.change(todo=[{**TODO, "completed": 4}])
    done = "所有步骤均已完成" if language == "zh" else "All steps are done"
    panel.locator(".todo-end.done", has_text=done).wait_for()
    assert panel.locator("progress").evaluate("(bar) => bar.value / bar.max") == 1
    cancelled = [{**each, "status": "cancelled"} for each in TODO["items"]]
    server.change(todo=[{**TODO, "items": cancelled}])
    wait_until(page, lambda: panel.locator(".todo.cancelled").count() == 5)


@pytest.mark.slow(cases=2)
@each_size_and_language
def test_what_the_agent_does_is_announced(server, open_session, size, language):
    server.entries = [prompt(0, "Go"), answer(1, "", state="streaming")]
    page = open_session(size, language=language)
    dots = page.locator(".waiting-dots[role=status]")
    assert dots.inner_text().strip() == ("思考中" if language == "zh" else "Thinking")
    server.push({"type": "text", "seq": 1, "entry": 1, "field": "thinking", "at": 0, "add": "Hm."})
    page.locator(".thinking .shimmer", has_text=re.compile("Thinking|思考中")).wait_for()
    assert dots.count() == 0
    server.add(entry(2, "notice", about="rules", text="AGENTS.md was read again", code="",
                     hint="", level="info"))  # fmt: skip
    page.locator(".note", has_text="AGENTS.md was read again").wait_for()


def test_every_kind_of_entry_of_the_samples_is_in_the_contract():
    """A new state in the samples needs a row: its text would be tested nowhere."""
    states = {each["state"] for each in every_state() if each["kind"] == "card"}
    assert states == {state for state, *_rest in CALLS}
