"""How agents are written on a screen: rows that fit, lines at each change, and results that are
found again.
"""

import pytest
from hilum.events import CallStarted, ModelStarted, PluginEvent
from hilum.messages import ToolCall
from hilum.testing import open_bench, use
from hilum_cli.agents import again, change, ending, rows
from hilum_cli.rendering import notice_line, status_line, todo_rows
from hilum_cli.terminal import cells, cut, wrap
from hilum_view import Actor, AgentView, Notice, SessionView


def told(view, name, at=100.0, **data) -> AgentView | None:
    return view.apply(PluginEvent(name=f"agents.{name}", data=data, at=at)).agent


def started(*titles):
    """Views of agents that have begun, but the last, which waits."""
    views = SessionView()
    for number, title in enumerate(titles):
        identity = f"{number}" * 12
        told(
            views,
            "queued",
            agent_id=identity,
            agent="task",
            actor=f"t{number}",
            title=title,
            lane="main",
        )
        waits = number == len(titles) - 1
        state = {"status": "queued", "place": 1} if waits else {"status": "running"}
        told(views, "status", agent_id=identity, progress=0.25, current_step="…", **state)
    return views


def test_a_row_says_who_how_far_how_long_and_what():
    views = started("read the docs", "检查测试覆盖率和边界条件", "wait")
    views.apply(ModelStarted(agent="t1", turn=2))
    views.apply(CallStarted(agent="t0", call=ToolCall("c", "read_file", '{"path": "a.py"}')))
    assert list(rows(views.agents.open(), 80, 10, "⠋", 112.0)) == [
        "⠋ 0000 read the docs             25%  12 s  read_file path=a.py",
        "⠋ 1111 检查测试覆盖率和边界条件  25%  12 s  turn 2: thinking",
        "· 2222 wait                           12 s  waiting, position 1",
    ]


@pytest.mark.parametrize("width", [10, 20, 40, 59, 60, 200])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_rows_fit_into_any_terminal(width, most):
    views = started(
        "a very long title of a task " * 3, "检查测试覆盖率和边界条件" * 3, "c", "d", "e", "f"
    )
    shown = list(rows(views.agents.open(), width, most, "⠋", 112.0))
    assert all(cells(row) <= width for row in shown)
    assert len(shown) <= max(most, 2) + 1
    assert shown[-1].startswith("  … and")


def test_only_changes_are_told():
    """A second of work is none."""
    views = SessionView()
    told(views, "queued", agent_id="abc", agent="review", actor="review")
    place = told(
        views, "status", agent_id="abc", status="queued", place=2, progress=0.0, current_step=""
    )
    assert change(place) == "· abc review: waiting, position 2"
    assert (
        told(
            views, "status", agent_id="abc", status="queued", place=1, progress=0.0, current_step=""
        )
        is None
    )
    assert (
        change(told(views, "status", agent_id="abc", status="running", progress=0.0))
        == "▸ abc review: begins"
    )
    assert (
        told(views, "status", agent_id="abc", status="running", progress=0.5, current_step="x")
        is None
    )
    for status in ("waiting_for_tool", "running"):
        assert not change(told(views, "status", agent_id="abc", status=status, progress=0.5))
    asks = told(views, "status", agent_id="abc", status="waiting_for_approval", progress=0.5)
    assert change(asks) == "? abc review: waiting for your approval"
    assert views.agents.open() == [asks]
    ended = told(views, "result", agent_id="abc", status="timed_out", seconds=61.0, text="half")
    assert ending(ended) == "✗ abc review · timed out · 1 min 1 s"
    assert told(views, "status", agent_id="abc", status="timed_out", progress=0.5) is None
    assert not views.agents.open()
    assert "hilum agents result abc" in again(views.agents.ended())


async def test_an_agent_begins_once_however_many_calls_it_makes(tmp_path):
    look = use("list_directory", path=".")
    answers = [use("task", prompt="Look.", description="look"), look, look, "Seen.", "Done."]
    async with open_bench("scheduler", "files", answers=answers, folder=tmp_path) as kit:
        await kit.run("Have a look.")
        events = kit.events
    views = SessionView()
    lines = []
    for event in events:
        agent = views.apply(event).agent
        if agent is not None:
            lines.append(change(agent))
    assert sum(text.endswith("look: begins") for text in lines) == 1


def test_events_that_are_not_what_they_should_be_are_left_out():
    """Any plugin may write an event of any name."""
    view = SessionView()
    for data in (
        {},
        {"agent_id": 7},
        {"agent_id": "x", "status": None},
        {"items": 3},
        {"items": [{}]},
    ):
        for name in ("agents.queued", "agents.status", "agents.result", "plan.todos"):
            view.apply(PluginEvent(name=name, data=data, agent="main"))
    assert not todo_rows(view.lead_actor.todos)


def test_text_is_cut_and_broken_by_columns():
    assert [cells(text) for text in ("abc", "数据", "e\u0301", "✓")] == [3, 4, 1, 1]
    assert cut("数据库", 5) == "数据…"
    assert cut("数据库", 6) == "数据库"
    assert wrap("one two three", 8) == "one two\nthree"
    assert wrap("数据库的选择", 8, "  ") == "  数据库\n  的选择"
    assert wrap("https://a.example/very/long", 8) == "https://a.example/very/long"


def test_a_status_line_leaves_out_what_matters_least():
    view = SessionView()
    view.actors["main"] = Actor(name="main", turn=3, model="openai/a-model-with-a-long-name")
    whole = status_line(view, 2.0, turns=25, before="thinking", after="Ctrl-C stops")
    assert "openai/" in whole
    for width in (70, 45, 30):
        shown = status_line(view, 2.0, width=width, before="thinking", after="Ctrl-C stops")
        assert cells(shown) <= width
        assert shown.startswith("thinking")
        assert shown.endswith("Ctrl-C stops")


def test_the_lines_of_a_notice_are_indented_below_its_mark():
    notice = Notice(id=0, about="said", text="two problems:\n  one\ntwo", level="info")
    assert notice_line(notice) == "· two problems:\n  one\n  two"
