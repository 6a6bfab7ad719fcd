"""The panels above the input: todo list, agents, thinking, and waiting messages."""

import random

from hilum.messages import Usage
from hilum_terminal.panels import agent_rows, ended_agent_rows, queue_rows, thinking_rows, todo_rows
from hilum_terminal.styles import PLAIN, Theme
from hilum_view import AgentView, StreamedText, TodoList

from .screens import WIDTHS, find_faults, hostile_text, plain, screen


def todo_list(*items):
    todos = TodoList()
    data = []
    for number, (status, content) in enumerate(items):
        data.append({"id": str(number), "status": status, "content": content})
    completed = sum(status == "completed" for status, _ in items)
    total = sum(status not in ("skipped", "cancelled") for status, _ in items)
    assert todos.apply({"items": data, "progress": {"completed": completed, "total": total}})
    return todos


TODOS = todo_list(
    ("completed", "read the code"),
    ("completed", "write a test"),
    ("in_progress", "fix the parser"),
    ("pending", "run all tests"),
    ("pending", "write the changelog"),
    ("skipped", "benchmark"),
    ("blocked", "ask for access"),
    ("pending", "commit"),
)


def show(rows, width=60):
    assert not find_faults(rows, width)
    return plain(rows)


# --- todo list ------------------------------------------------------------------------------------


def test_the_current_item_comes_first():
    assert show(todo_rows(TODOS, width=60, theme=PLAIN)) == screen("""
        ▸ 2/7 fix the parser
        ! next: ask for access
        ○ run all tests
          … 2 more
        """)
    assert show(todo_rows(TODOS, width=20, theme=PLAIN), 20) == screen("""
        ▸ 2/7 fix the parser
        ! next: ask for acc…
        ○ run all tests
          … 2 more
        """)


def test_all_items_are_shown_unfolded():
    assert show(todo_rows(TODOS, width=60, theme=PLAIN, unfolded=True)) == screen("""
        todo 2/7
        ✓ read the code
        ✓ write a test
        ▸ fix the parser
        ○ run all tests
        ○ write the changelog
        – benchmark
        ! ask for access
        ○ commit
        """)


def test_other_todo_lists():
    assert todo_rows(TodoList(), width=60, theme=PLAIN) == []
    waiting = todo_list(("pending", "first"), ("pending", "second"))
    assert show(todo_rows(waiting, width=60, theme=PLAIN)) == "○ 0/2 first\n○ next: second"
    done = todo_list(("completed", "first"), ("failed", "second"))
    assert show(todo_rows(done, width=60, theme=PLAIN)) == "✓ todo 1/2"
    for max_rows in range(1, 9):
        rows = todo_rows(TODOS, width=60, theme=PLAIN, max_rows=max_rows)
        assert len(rows) == min(max_rows, 5)
        assert "fix the parser" in rows[0]


# --- agents ---------------------------------------------------------------------------------------


def agent(number, status="running", **more):
    return AgentView(
        f"a{number}b2c3", "explore", f"explore-{number}", title=f"Task {number}",
        status=status, since=100.0, **more,
    )  # fmt: skip


AGENTS = [
    agent(1, "waiting_for_approval", progress=0.4),
    agent(2, progress=0.25, doing="read_file path=src/a.py", usage=Usage(12_000, output=400)),
    agent(3, "queued", place=2),
]


def show_agents(views, width=80, **more):
    rows = agent_rows(views, width=width, now=165.9, theme=PLAIN, spinner="*", **more)
    return show(rows, width)


def test_an_agent_is_a_row():
    assert show_agents(AGENTS) == screen("""
        ? a1b2 Task 1  40% done 1 min 5 s  waiting for your approval
        * a2b2 Task 2  25% done 1 min 5 s  read_file path=src/a.py  12k tokens
        · a3b2 Task 3           1 min 5 s  waiting, position 2
        """)
    assert show_agents(AGENTS, 40) == screen("""
        ? a1b2 Task 1 waiting for your approval
        * a2b2 Task 2 25% done 1 min 5 s  read_…
        · a3b2 Task 3 1 min 5 s  waiting, posit…
        """)


def test_agents_and_commands_share_the_rows():
    many = [agent(number) for number in range(9)]
    assert show_agents(many, 60, background=2).splitlines()[3:] == [
        "* a3b2 Task 3           1 min 5 s  thinking",
        "  … 5 more agents",
        "· 2 commands in the background",
    ]
    assert len(show_agents(many).splitlines()) == 6
    assert len(show_agents(many[:6]).splitlines()) == 6
    assert show_agents([], background=1) == "· 1 command in the background"
    assert show_agents([]) == ""


# --- thinking -------------------------------------------------------------------------------------


def show_thinking(text, width=60, **more):
    more.setdefault("seconds", 12.9)
    rows = thinking_rows(StreamedText(text), width=width, theme=PLAIN, **more)
    return show(rows, width)


def test_thinking_is_folded_to_its_last_line():
    text = "First I look.\nThen I edit the file.\n\n"
    assert show_thinking(text) == "thinking… 12 s  Then I edit the file."
    assert show_thinking(text, 30) == "thinking… 12 s  Then I edit t…"
    assert show_thinking(text, 20) == "thinking… 12 s"
    assert show_thinking(text, ended=True) == "thought for 12 s"
    assert show_thinking("") == ""
    assert show_thinking("x", seconds=-3.0) == "thinking… 0 s  x"


def test_thinking_is_shown_unfolded():
    text = "First I look at everything there is.\nThen I edit."
    assert show_thinking(text, 30, unfolded=True) == screen("""
        thinking… 12 s
          First I look at everything
          there is.
          Then I edit.
        """)
    assert show_thinking(text, 30, unfolded=True, max_rows=3) == screen("""
        thinking… 12 s
          there is.
          Then I edit.
        """)
    rows = thinking_rows(
        StreamedText("word " * 200_000), width=80, theme=PLAIN, seconds=1, unfolded=True, max_rows=8
    )
    assert len(rows) == 8


# --- waiting messages -----------------------------------------------------------------------------


def test_the_two_lists_of_messages():
    rows = queue_rows(
        ["also fix the tests", "use tabs\nnot spaces"], ["write the docs"],
        width=80, theme=PLAIN, edit_key="alt-up",
    )  # fmt: skip
    assert show(rows, 80) == screen("""
        read after the current call
          1 also fix the tests
          2 use tabs (+1 line)
        sent when the agent has finished
          3 write the docs  alt-up edits
        """)
    # The key edits the message that was entered last.
    rows = queue_rows(
        ["use tabs"], ["write the docs"], width=80, theme=PLAIN, edit_key="alt-up",
        edits_queued=False,
    )  # fmt: skip
    assert show(rows, 80) == screen("""
        read after the current call
          1 use tabs  alt-up edits
        sent when the agent has finished
          2 write the docs
        """)
    assert queue_rows([], [], width=80, theme=PLAIN) == []


def test_the_message_is_worth_more_than_the_keys():
    rows = queue_rows(
        [], ["write the docs and the changelog"] * 5,
        width=30, theme=PLAIN, edit_key="ctrl-shift-alt-up",
    )  # fmt: skip
    assert show(rows, 30) == screen("""
        sent when the agent has finis…
          1 write the docs and the ch…
          2 write the docs and the ch…
          3 write the docs and the ch…
          … 2 more · ctrl-shift-alt-u…
        """)


# --- all panels -----------------------------------------------------------------------------------


def test_every_row_fits_for_hostile_texts():
    generator = random.Random(14)
    statuses = ("pending", "in_progress", "completed", "blocked", "\x1b[2J")
    faults = []
    for _ in range(150):
        texts = [hostile_text(generator) for _ in range(5)]
        width = generator.choice(WIDTHS)
        theme = generator.choice((PLAIN, Theme("256")))
        unfolded = generator.random() < 0.5
        todos = todo_list(*((generator.choice(statuses), text) for text in texts))
        view = AgentView(texts[0], texts[1], "x", title=texts[2], doing=texts[3], status="running")
        thinking = StreamedText(texts[4])
        rows = [
            *todo_rows(todos, width=width, theme=theme, unfolded=unfolded),
            *agent_rows([view] * 8, width=width, now=5.0, theme=theme, spinner="⠋", background=3),
            *thinking_rows(thinking, width=width, theme=theme, seconds=1.0, unfolded=unfolded),
            *queue_rows(texts, texts, width=width, theme=theme, edit_key="f2"),
        ]
        faults += find_faults(rows, width)
    assert not faults


def test_colors():
    theme = Theme("16")
    rows = todo_rows(TODOS, width=60, theme=theme)
    assert rows[0] == "\x1b[36m▸\x1b[0m \x1b[2m2/7\x1b[0m \x1b[1mfix the parser\x1b[0m"
    assert rows[1] == "\x1b[33m!\x1b[0m \x1b[2mnext:\x1b[0m ask for access"
    rows = agent_rows(AGENTS, width=80, now=165.9, theme=theme, spinner="*")
    assert rows[0].startswith("\x1b[33m?\x1b[0m")
    assert rows[0].endswith("\x1b[33mwaiting for your approval\x1b[0m")
    (row,) = thinking_rows(StreamedText("x"), width=60, theme=theme, seconds=1.0)
    assert row == "\x1b[2mthinking… 1 s  x\x1b[0m"


# --- agents that have ended -----------------------------------------------------------------------


def ended_agent(answer, calls=0):
    return AgentView(
        id="ab12",
        agent="explore",
        actor="explore-1",
        title="look around",
        status="completed",
        seconds=2,
        calls=calls,
        result={"text": answer},
    )


def test_an_ended_agent_names_the_key_that_shows_the_rest():
    agent = ended_agent("one two three four five six seven eight nine ten eleven", calls=1)
    assert show(ended_agent_rows(agent, width=24, theme=PLAIN, unfold_key="ctrl-o"), 24) == screen(
        """
        ✓ agent look around · 1…
            one two three four
            five six seven eight
            nine ten eleven
        """
    )
    agent = ended_agent("\n".join("abcdef"), calls=2)
    assert show(ended_agent_rows(agent, width=60, theme=PLAIN, unfold_key="ctrl-o")) == screen("""
        ✓ agent look around · 2 calls · 2.0 s
            a
            b
            c
            … more (ctrl-o)
        """)
    assert show(ended_agent_rows(agent, width=60, theme=PLAIN)).endswith(
        "… more (/agents result ab12)"
    )
    agent = ended_agent("Short.", calls=2)
    assert show(ended_agent_rows(agent, width=60, theme=PLAIN, unfold_key="ctrl-o")) == screen("""
        ✓ agent look around · 2 calls (ctrl-o) · 2.0 s
            Short.
        """)
