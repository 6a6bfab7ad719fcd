"""Sessions as text."""

from hilum.events import CallDone, ModelAnswered, RunEnded, RunStarted
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, UserMessage
from hilum.store import SessionInfo
from hilum_cli.sessions import table
from hilum_cli.transcript import markdown, transcript
from hilum_view import Totals

INFO = SessionInfo(
    "20260131-101500-abcdef01", "/home/me/work", title="Fix it", created=0, updated=0, events=9
)
CALL = ToolCall("c", "read_file", '{"path": "a.md"}')
RESULT = ToolResult("c", "read_file", (Text("1 | ```\n2 | </details>"),))
EVENTS = [
    RunStarted(agent="main", text="Fix\nit", message=UserMessage((Text("Fix\nit"),))),
    ModelAnswered(agent="main", message=AssistantMessage((Text("I look."), CALL), "a/b", "calls")),
    CallDone(agent="main", result=RESULT, seconds=0.1),
    ModelAnswered(agent="main", message=AssistantMessage((Text("Done."),), "a/b")),
    RunEnded(agent="main", state="completed", text="Done.", turns=2, seconds=3),
]


def test_a_transcript_folds_calls():
    """Prompt, answers, calls on two lines, the end."""
    text = transcript(INFO, EVENTS)
    assert text.startswith("Fix it\n20260131-101500-abcdef01 · /home/me/work · ")
    parts = text.split("\n\n")
    assert parts[1:] == [
        "> Fix\n> it",
        "I look.",
        "✓ read_file path=a.md (0.1 s)\n    1 | ```",
        "Done.",
        "── completed · 2 turns · 3.0 s",
        "The whole session · 1 run · no tokens",
    ]


def test_a_full_transcript_unfolds_them():
    """Arguments and results in full."""
    assert '{\n      "path": "a.md"\n    }\n    1 | ```\n    2 | </details>' in transcript(
        INFO, EVENTS, full=True
    )


def test_markdown_keeps_results_inside_their_block():
    """A fence in a result cannot close the block around it."""
    text = markdown(INFO, EVENTS)
    assert "````\n1 | ```\n2 | </details>\n````" in text
    assert text.startswith("# Fix it\n")
    assert "## User\n\n> Fix\n> it" in text


def test_markdown_shows_titles_and_names_as_they_are():
    """A title with HTML or Markdown is text in the heading."""
    info = SessionInfo(
        INFO.id,
        INFO.workspace,
        title="<b>x</b> & *a* `b` snake_case _c_ [d](e)",
        created=0,
        updated=0,
    )
    call = ToolCall("c", "<i>read", "{}")
    events = [
        EVENTS[0],
        ModelAnswered(
            agent="main", message=AssistantMessage((Text("Hm."), call), "a/<b>_", "calls")
        ),
        CallDone(agent="main", result=ToolResult("c", "<i>read", (Text("1"),)), seconds=0.1),
    ]
    text = markdown(info, events)
    assert text.startswith(r"# \<b\>x\</b\> \& \*a\* \`b\` snake_case \_c\_ \[d\](e)" + "\n")
    assert r"## a/\<b\>\_" in text
    assert "<summary>&lt;i&gt;read · ok" in text


def test_a_table_fits_the_terminal():
    """The title gives way."""
    lines = table([INFO] * 2, [Totals()] * 2, folder=True, width=90).split("\n")
    assert len(lines) == 3
    assert all(len(text) <= 90 for text in lines)
    assert "/home/me/work" in lines[1]
