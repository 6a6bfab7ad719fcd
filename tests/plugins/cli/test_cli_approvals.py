"""Approvals on the terminal: whose call it is, and which end ends the question."""

import json

import hilum_files
import hilum_guard
import msgspec
import pytest
from hilum.events import ApprovalAsked, CallDone
from hilum.messages import ToolCall, ToolResult
from hilum_cli.approvals import Approver
from hilum_cli.faces import Face
from hilum_cli.previews import folded
from hilum_guard import describe_call, describe_scope


def asked(agent: str) -> ApprovalAsked:
    call = ToolCall("call_0", "write_file", '{"path": "a"}')
    return ApprovalAsked(
        id=f"of {agent}", agent=agent, call=call, risk="write", reason="r", seconds=1.0
    )


def test_it_says_whose_call_it_is():
    assert describe_call(asked("main")).startswith(
        "── write_file (write) wants to run\n   Needs approval: r"
    )
    assert describe_call(asked("test\x1b[2J")).startswith(
        "── write_file (write) wants to run for the agent test\\x1b[2J\n   Needs approval: r"
    )


async def test_a_call_of_another_agent_ends_no_question():
    """Models that number their calls give two agents the same ids."""
    approver = Approver(None, Face())  # type: ignore[arg-type]
    approver._open = asked("helper")
    done = CallDone(agent="other", result=ToolResult("call_0", "write_file", ()))
    approver.note(done)
    assert not approver._scope.cancel_called
    approver.note(CallDone(agent="helper", result=done.result))
    assert approver._scope.cancel_called


def question(name, scope="", **arguments):
    """A question about a call."""
    call = ToolCall("call_0", name, json.dumps(arguments))
    return ApprovalAsked(
        id="q", agent="main", call=call, risk="write", reason="r", scope=scope, seconds=300.0
    )


@pytest.fixture
async def session(bench):
    """A session with a file in its workspace."""
    kit = await bench(
        hilum_guard, hilum_files, files={"a.py": "".join(f"line {n}\n" for n in range(100))}
    )
    return kit.session


async def test_a_rewritten_file_is_shown_as_a_diff(session):
    """What changes, how many lines go, and not the old text below the new one."""
    new = "".join(f"line {n}\n" if n != 50 else "other\n" for n in range(100))
    text = describe_call(question("write_file", path="a.py", content=new), session)
    assert "overwrites 100 lines of a.py with 100 lines" in text
    assert "   -line 50\n   +other\n" in text
    assert len(text.splitlines()) < 12


@pytest.mark.parametrize(
    ("name", "arguments", "rows"),
    [
        (
            "write_file",
            {"path": "new.py", "content": "a\nb\n"},
            ["creates new.py (2 lines)", "+a", "+b"],
        ),
        (
            "edit_file",
            {"path": "a.py", "old_string": "line 3\n", "new_string": "drei\n"},
            ["changes a.py", "-line 3", "+drei"],
        ),
        ("delete_file", {"path": "a.py"}, ["deletes a.py (100 lines)"]),
        (
            "edit_file",
            {"path": "a.py", "old_string": "not there", "new_string": "x"},
            ["old_string: not there", "new_string: x"],
        ),
        (
            "multi_edit",
            {"path": "a.py", "edits": [{"old_string": "line 7\n", "new_string": ""}]},
            ["-line 7"],
        ),
        ("write_file", {"path": "../out", "content": "x"}, ["path: ../out", "content: x"]),
    ],
)
async def test_each_change_of_a_file_says_what_it_is(session, name, arguments, rows):
    """Where an edit does not fit the file, the arguments are shown as they are."""
    shown = [
        row.strip() for row in describe_call(question(name, **arguments), session).splitlines()
    ]
    assert [row for row in rows if row not in shown] == []


def test_nothing_is_left_out_of_a_command():
    """Colours, control, direction and zero-width characters are written as escapes, and it is said
    so.
    """
    text = describe_call(
        question("run_terminal_cmd", command="touch 'a\x1b[31mb\x1b[0m' c\u202ed\u200be\rf")
    )
    assert "touch 'a\\x1b[31mb\\x1b[0m' c\\u202ed\\u200be\\rf" in text
    assert "written as escapes" in text
    assert "written as escapes" not in describe_call(
        question("run_terminal_cmd", command="touch a")
    )


def test_a_look_alike_host_is_shown_in_punycode():
    """With the script of its letters."""
    text = describe_call(question("web_fetch", url="https://\u0430pple.com/x"))
    assert (
        "host: xn--pple-43d.com (written \u0430pple.com, with Cyrillic letters that can look like others)"
        in text
    )
    assert "host:" not in describe_call(question("web_fetch", url="https://apple.com/x"))


@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_long_question_is_folded_in_its_middle(width):
    """The end stays: a command behind padding is seen."""
    text = describe_call(
        question("run_terminal_cmd", command="echo " + "x" * 20_000 + "; rm -rf /tmp/y")
    )
    short, is_folded = folded(text, width)
    assert is_folded
    assert len(short.splitlines()) <= 40
    assert "rm -rf /tmp/y" in short.replace("\n", "")
    assert "v shows all" in short
    assert folded("a\nb", width) == ("a\nb", False)


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("run_terminal_cmd(git status *)", "every command `git status …`"),
        ("run_terminal_cmd(=a && b)", "exactly this command"),
        ("run_terminal_cmd(=a\nb\nc)", "exactly these 3 lines, and no others"),
        ("web_fetch(domain:a.example)", "every call of web_fetch to the host a.example"),
        ("write_file", "every call of write_file"),
        ("write_file(/.vscode/tasks.json)", "every call of write_file for /.vscode/tasks.json"),
        ("", "every call of write_file"),
    ],
)
def test_what_a_lasting_yes_covers_is_said_in_words(scope, words):
    """Before it is given."""
    assert describe_scope(question("write_file", scope=scope)) == words


async def test_an_approval_of_an_earlier_question_does_not_answer_a_dangerous_one(session):
    """Both were asked before the user allowed such calls for the session."""
    session.agents["main"].conversation.grants.add("write_file")
    approver = Approver(session, Face())
    harmless = question("write_file", path="a")
    assert approver._is_granted(harmless)
    dangerous = msgspec.structs.replace(harmless, once_only=True)
    assert not approver._is_granted(dangerous)
