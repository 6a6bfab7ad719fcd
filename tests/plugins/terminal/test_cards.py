"""Tool calls as cards: every state, every kind of tool, and what a card must never say."""

import json
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hilum import events as ev
from hilum.errors import GATE_SHUT, UNATTENDED
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult
from hilum_shell.report import ShownOutput, describe_kept, format_cut_notice
from hilum_terminal.call_descriptions import short_line
from hilum_terminal.cards import card_rows, finished_card_rows, streaming_call_rows
from hilum_terminal.styles import PLAIN, Theme
from hilum_view import SessionView, StreamedText

from .screens import WIDTHS, find_faults, hostile_text, plain, screen

BEGAN = 1_000.0
EDIT = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n import os\n-count = 1\n+count = 2\n end\n"


class Scene:
    """A session with one call, whose events are applied as a session writes them."""

    def __init__(self, tool="run_terminal_cmd", /, *, agent="main", view=None, **arguments):
        self.view = view or SessionView()
        self.agent = agent
        self.call = ToolCall("c1", tool, json.dumps(arguments))
        self.apply(ev.ModelAnswered, message=AssistantMessage((self.call,)))

    def apply(self, event, **fields):
        self.view.apply(event(agent=self.agent, run="r1", **fields))
        return self

    def ask(self):
        return self.apply(ev.ApprovalAsked, id="q1", call=self.call, risk="execute")

    def answer(self, accepted, **fields):
        return self.apply(ev.ApprovalAnswered, id="q1", accepted=accepted, **fields)

    def start(self, **fields):
        return self.apply(ev.CallStarted, call=self.call, at=BEGAN, **fields)

    def print(self, text):
        self.view.apply(ev.Delta(1, self.agent, "r1", "output", text, "c1"))
        return self

    def end(self, text="", code="", seconds=2.34, changed=True, **data):
        if code:
            text = f"{code}: {text}"
        result = ToolResult("c1", self.call.name, (Text(text),), code, data, changed)
        return self.apply(ev.CallDone, result=result, seconds=seconds)

    @property
    def card(self):
        return self.view.cards[-1]

    def rows(self, width=60, theme=PLAIN, now=BEGAN + 4.7, **more):
        rows = card_rows(
            self.card, self.view, width=width, now=now, theme=theme, spinner="*", **more
        )
        assert not find_faults(rows, width)
        return rows

    def show(self, width=60, **more):
        return plain(self.rows(width, **more))


def command(line="pytest -q"):
    return Scene(command=line)


def lines(count):
    return "\n".join(f"line {number}" for number in range(1, count + 1))


# --- states ---------------------------------------------------------------------------------------


def test_a_command_from_its_request_to_its_end():
    scene = command()
    assert scene.show() == "· $ pytest -q  not running yet"
    scene.ask()
    assert scene.show() == "? $ pytest -q  waiting for your approval"
    scene.answer(True)
    assert scene.show() == "· $ pytest -q  you answered, not running yet"
    scene.start()
    assert scene.show(now=BEGAN + 5) == "* $ pytest -q  5 s · Ctrl-B: background"
    assert scene.show() == "* $ pytest -q  4 s"
    scene.print("collecting\n\n.....\n\x1b[31m..\n")
    assert scene.show() == screen("""
        * $ pytest -q  4 s
            .....
            ..
        """)
    scene.end(f"Exit code 0 after 2.3 s\n{lines(5)}", exit_code=0)
    assert scene.show() == screen("""
        ✓ $ pytest -q  2.3 s
            … 2 more lines (ctrl-o)
            line 3
            line 4
            line 5
        """)
    assert scene.show(unfold_key="alt-o").splitlines()[1] == "    … 2 more lines (alt-o)"


def test_a_command_that_failed_is_no_success():
    """In either form: a failed call, and a call that completed although its command failed."""
    failed = (
        command().start().end(f"Exit code 2 after 2.3 s\n{lines(4)}", "E_CMD_FAIL", exit_code=2)
    )
    assert failed.show() == screen("""
        ✗ $ pytest -q  exit 2 · 2.3 s
            … 1 more line (ctrl-o)
            line 2
            line 3
            line 4
        """)
    completed = command("grep x a").start().end("Exit code 1 after 0.1 s\n[no output]", exit_code=1)
    assert completed.card.state == "completed"
    assert completed.show() == "✗ $ grep x a  exit 1 · 2.3 s"
    killed = command().start().end("Killed by signal 9 after 2.3 s", "E_CMD_FAIL", exit_code=-9)
    assert killed.show() == "✗ $ pytest -q  killed by signal 9 · 2.3 s"
    late = command().start().end("The command took longer than 2 s.", "E_TIMEOUT", exit_code=-15)
    assert late.show().splitlines()[0] == "✗ $ pytest -q  timed out · 2.3 s"


def test_notes_for_the_model_do_not_name_its_tools():
    """The user cannot call them."""
    spool = SimpleNamespace(start=0, end=70_000)
    service = cast(Any, SimpleNamespace(id="s1", spool=spool))
    cut_notice = format_cut_notice(ShownOutput("", 1, 70_000, 900), service)
    for note in (describe_kept(service, beyond=False), cut_notice):
        text = f"Exit code 0 after 0.1 s\nready\n{note}"
        shown = command().start().end(text, exit_code=0).show()
        assert "read_service" in note
        assert "_service" not in shown
        assert "ready" in shown
    assert "[The output was cut: 70,000 characters in 900 lines.]" in shown


def test_the_end_of_a_long_command_is_shown():
    long = "find . " + "-not -name '*.txt' " * 20 + "-exec rm {} +"
    head = command(long).start().show().splitlines()[0]
    assert "$ find ." in head
    assert "-exec rm {} +" in head


def test_a_command_in_the_background_has_not_succeeded_yet():
    moved = command("npm start").start().end("It still runs.\nready", service="s1")
    assert moved.show().splitlines()[0] == "▸ $ npm start  still running in the background as s1"
    stopped = Scene("stop_service", service="s1").start().end("s1: ended", exit_code=-15)
    assert stopped.show().splitlines()[0] == "✓ stop s1  2.3 s"


def test_a_rejected_call_says_by_whom():
    rejected = command("rm -rf build").ask().answer(False, reason="keep it")
    rejected.end("The user rejected the call: keep it. Change your plan.", "E_REJECTED", seconds=0)
    assert rejected.show() == "⊘ $ rm -rf build  rejected by you\n    keep it."
    silent = command("rm -rf build").ask().answer(False)
    silent.end("The user rejected the call: no reason given. Change your plan.", "E_REJECTED")
    assert silent.show() == "⊘ $ rm -rf build  rejected by you"
    late = command("make").ask().answer(False, by="timeout")
    late.end("Nobody answered within 300 seconds. The call was not run.", "E_APPROVAL_TIMEOUT")
    assert late.show() == screen("""
        ⊘ $ make  not run: no answer in time
            Nobody answered within 300 seconds. The call was not
            run.
            Tell the agent if it should ask again.
        """)
    denied = command("rm -rf /").end("It would delete everything.", "E_BLOCKED", seconds=0)
    assert denied.show() == screen("""
        ⊘ $ rm -rf /  denied by a rule
            It would delete everything.
            /permissions shows the rules.
        """)
    alone = command("make").end(f"{UNATTENDED}: make.", "E_DENIED", rule="run(make *)")
    assert alone.show(100) == screen("""
        ⊘ $ make  not run: nobody could approve it
            It needs the user's approval, and no user is present to give it: make.
            To allow it: /permissions allow 'run(make *)'
        """)
    broken = command("make").end(f"The plugin guard {GATE_SHUT}.", "E_PLUGIN")
    assert broken.show(80) == screen("""
        ⊘ $ make  not run: a safety check is not working
            The plugin guard guards tool calls and is not working.
            /doctor shows which plugin is not working.
        """)


def test_a_tool_that_denies_after_it_began_has_failed():
    scene = Scene("web_fetch", url="https://a.org/x").start()
    scene.end("The site does not allow it.", "E_DENIED")
    assert scene.show() == "✗ fetch a.org/x  failed · 2.3 s\n    The site does not allow it."


def test_a_failure_shows_its_reason_and_what_to_do():
    scene = Scene("read_file", path="src/a.py").start()
    scene.end("There is no src/a.py. Did you mean src/b.py?", "E_FILE_NOT_FOUND", seconds=0.01)
    assert scene.show() == screen("""
        ✗ read src/a.py  failed
            There is no src/a.py. Did you mean src/b.py?
        """)
    scene.end("word " * 100, "E_FAILED")
    assert scene.show(40) == screen("""
        ✗ read src/a.py  failed · 2.3 s
            word word word word word word word
            word word word word word word word
            word word word word word word word …
            … more (ctrl-o)
        """)


def test_a_stopped_call_is_interrupted():
    stopped = command("sleep 9").start().end("`sleep 9` was stopped.", "E_STOPPED")
    assert stopped.show().splitlines()[0] == "– $ sleep 9  stopped · 2.3 s"
    # The run ended without an event for the end of the call.
    lost = command("sleep 9").start().apply(ev.RunEnded, state="interrupted")
    assert lost.show() == "– $ sleep 9  stopped"
    waiting = command("sleep 9").apply(ev.RunEnded, state="stopped")
    assert waiting.show() == "– $ sleep 9  stopped, did not run"


def test_no_state_says_more_than_has_happened():
    """Success has its own mark, and before the end nothing sounds as if it had happened."""
    scenes = {
        "pending": command(),
        "asked": command().ask(),
        "accepted": command().ask().answer(True),
        "running": command().start().print("passed\n"),
        "failed": command().start().end("x", "E_FAILED"),
        "refused": command().end("x", "E_DENIED"),
        "exit 3": command().start().end("x", exit_code=3),
        "stopped": command().start().end("x", "E_STOPPED"),
        "interrupted": command().start().apply(ev.RunEnded, state="stopped"),
    }
    for state, scene in scenes.items():
        for width in WIDTHS:
            for unfolded in (False, True):
                head = scene.show(width, unfolded=unfolded).splitlines()[0]
                assert "✓" not in head, (state, width)
                assert not any(word in head for word in ("done", "passed", "ran ")), head
    for width in WIDTHS:
        assert command().start().end("x", exit_code=0).show(width).startswith("✓ $ p")
        assert "exit 3" in scenes["exit 3"].show(width), width


def test_the_clock_may_jump():
    scene = command().start()
    assert scene.show(now=BEGAN - 50) == "* $ pytest -q  running"
    assert scene.show(now=BEGAN + 3_700) == "* $ pytest -q  1 h 1 min · Ctrl-B: background"


# --- kinds of tools -------------------------------------------------------------------------------


def test_what_a_call_does_is_said_in_plain_words():
    wrong = []
    for name, arguments, expected in [
        ("run_terminal_cmd", {"command": "ls"}, "$ ls"),
        ("run_terminal_cmd", {"command": "ls\npwd\nid"}, "$ ls (+2 lines)"),
        ("run_terminal_cmd", {"command": "ls", "working_directory": "src"}, "$ ls in src"),
        ("run_terminal_cmd", {"command": "x", "background": True}, "$ x in the background"),
        ("read_file", {"path": "a.py"}, "read a.py"),
        ("read_file", {"path": "a.py", "start_line": 1, "end_line": 80}, "read a.py (lines 1–80)"),
        ("read_file", {"path": "a.py", "offset": 5, "limit": 10}, "read a.py (lines 5–14)"),
        ("read_file", {"path": "a.py", "start_line": 5}, "read a.py (from line 5)"),
        ("write_file", {"path": "a.py", "content": "a\nb"}, "write a.py (2 lines)"),
        ("edit_file", {"path": "a.py", "old_string": "a"}, "edit a.py"),
        ("multi_edit", {"path": "a.py", "edits": [{}, {}]}, "edit a.py (2 edits)"),
        ("delete_file", {"path": "a.py"}, "delete a.py"),
        ("list_directory", {}, "list ."),
        ("search_files", {"pattern": "foo", "path": "src"}, 'search "foo" in src'),
        ("search_files", {"pattern": "foo", "glob": "*.py"}, 'search "foo" in *.py'),
        ("glob_search", {"pattern": "*.py", "path": "."}, 'find "*.py"'),
        ("web_fetch", {"url": "https://example.com/page"}, "fetch example.com/page"),
        ("web_fetch", {"url": "http://example.com"}, "fetch http://example.com"),
        ("web_search", {"query": "trio"}, 'search the web for "trio"'),
        ("task", {"description": "Look around"}, "start an agent: Look around"),
        ("call_tool", {"name": "delete_file", "arguments": {"path": "b"}}, "delete b"),
        ("call_tool", {"name": 3}, "call_tool name=3"),
        ("mcp_weather", {"city": "Bonn", "days": 3}, "mcp_weather city=Bonn days=3"),
        ("read_file", {"path": {"a": 1}}, 'read {"a": 1}'),
        ("read_lints", {"paths": ["a", "b"]}, "run the linters on a, b"),
        ("find_definition", {"name": "f", "path": "a.py"}, "find the definition of f in a.py"),
        ("find_references", {"name": "f", "path": "a.py"}, "find the uses of f in a.py"),
        ("list_symbols", {"path": "a.py", "query": "x"}, 'list the symbols in a.py with "x"'),
        ("list_symbols", {"query": "x"}, "find the symbol x"),
        ("rename_symbol", {"name": "f", "new_name": "g", "path": "a.py"}, "rename f to g"),
    ]:
        shown = Scene(name, **arguments).show(100).removeprefix("· ")
        shown = shown.removesuffix("  not running yet")
        if shown != expected:
            wrong.append(f"{name} {arguments}: {shown!r}")
    assert not wrong


def test_arguments_that_are_no_json_are_shown_as_they_are():
    scene = Scene()
    scene.call = ToolCall("c1", "read_file", "{path: \x1b[2J")
    scene.apply(ev.ModelAnswered, message=AssistantMessage((scene.call,)))
    assert scene.show() == "· read_file {path: \\x1b[2J  not running yet"


def test_an_edit_shows_its_diff():
    scene = Scene("edit_file", path="a.py").start().end("Edited a.py", diff=EDIT)
    assert scene.show(80) == screen("""
        ✓ edit a.py  +1 −1  2.3 s
               1   import os
               2 - count = 1
               2 + count = 2
               3   end
        """)
    long = "@@ -0,0 +1,30 @@\n" + "".join(f"+{number}\n" for number in range(30))
    scene = Scene("write_file", path="b").start().end("Created b", diff=long)
    rows = scene.show(50).splitlines()
    assert len(rows) == 13
    assert rows[-1] == "    … 19 more rows (ctrl-o)"
    assert len(scene.show(50, unfolded=True).splitlines()) == 31


def test_an_edit_without_an_effect_says_so():
    scene = Scene("edit_file", path="a.py").start()
    scene.end("Nothing was changed.", changed=False)
    assert scene.show().splitlines()[0] == "✓ edit a.py  nothing changed · 2.3 s"


def test_a_search_shows_its_count_and_the_first_results():
    text = "4 matching lines in 2 files\na.py\n1-x\n2:  foo = 1\n--\n9:foo\n\nb.py\n3:foo()\n4:foo"
    places = [["a.py", 2], ["a.py", 9], ["b.py", 3], ["b.py", 4]]
    scene = Scene("search_files", pattern="foo", path="src").start()
    scene.end(text, matches=4, places=places)
    assert scene.show() == screen("""
        ✓ search "foo" in src  2.3 s
            4 matching lines
            a.py:2: foo = 1
            a.py:9: foo
            b.py:3: foo()
            … 1 more line (ctrl-o)
        """)
    scene = Scene("glob_search", pattern="*.py").start()
    scene.end("a.py\nb.py", count=2, paths=["a.py", "b.py"])
    assert scene.show() == screen("""
        ✓ find "*.py"  2.3 s
            2 files
            a.py
            b.py
        """)
    scene = Scene("search_files", pattern="foo").start()
    scene.end("No match in 9 files.", matches=0, places=[])
    assert scene.show() == '✓ search "foo"  2.3 s\n    0 matching lines'


def test_another_tool_shows_the_first_line_of_its_result():
    scene = Scene("mcp_x", a=1).start().end("hello\nworld\n!")
    assert scene.show() == screen("""
        ✓ mcp_x a=1  2.3 s
            hello
            … 2 more lines (ctrl-o)
        """)


def test_unfolded_everything_is_shown():
    scene = Scene("mcp_x", text="one\ntwo", number=3).start().end(f"{lines(30)}\nlast  ")
    shown = scene.show(unfolded=True)
    assert shown.startswith(
        screen("""
        ✓ mcp_x text="one… (2 lines)" number=3  2.3 s
            text:
              one
              two
            number: 3
            line 1
        """)
    )
    assert shown.endswith("line 30\n    last")
    assert len(shown.splitlines()) == 36
    running = command("ls\npwd").start().print("a\nb\nc\n")
    assert running.show(unfolded=True) == screen("""
        * $ ls (+1 line)  4 s
            command:
              ls
              pwd
            a
            b
            c
        """)


def test_rewritten_arguments_are_the_ones_that_are_shown():
    scene = command("pip install x")
    written = scene.call
    scene.call = ToolCall("c1", written.name, json.dumps({"command": "uv pip install x"}))
    scene.start(original=written.arguments, rewritten_by=("house-rules",))
    assert scene.show() == screen("""
        * $ uv pip install x  4 s
            arguments changed by house-rules
        """)


# --- agents ---------------------------------------------------------------------------------------


def start_agent(view):
    data = {"agent_id": "a1b2", "agent": "explore", "actor": "explore-1", "title": "Look around"}
    view.apply(ev.PluginEvent(name="agents.queued", data=data))


def test_calls_of_other_agents_are_shown_while_they_run_or_if_they_failed():
    view = SessionView()
    start_agent(view)
    scene = Scene(agent="explore-1", view=view, command="ls")
    assert scene.show() == ""
    scene.ask()
    assert scene.show() == "? Look around: $ ls  waiting for your approval"
    scene.answer(True).start()
    assert scene.show() == "* Look around: $ ls  4 s"
    scene.end("Exit code 0\nx", exit_code=0)
    assert scene.show() == ""
    assert finished_card_rows(scene.card, view, width=60, theme=PLAIN) == []
    assert scene.show(unfolded=True).splitlines()[0] == "✓ Look around: $ ls  2.3 s"
    scene = Scene(agent="explore-1", view=view, command="ls").start()
    scene.end("Exit code 1\nno", "E_CMD_FAIL", exit_code=1)
    assert scene.show() == "✗ Look around: $ ls  exit 1 · 2.3 s\n    no"


def test_what_is_shown_elsewhere_has_no_card():
    scene = Scene("todo_write", todos=[]).start().end("2 items")
    assert scene.show() == ""
    scene.end("Nothing was changed.", "E_BAD_ARGS")
    assert scene.show() == (
        "✗ update the todo list (0 items)  failed · 2.3 s\n    Nothing was changed."
    )


# --- streaming arguments --------------------------------------------------------------------------


def streaming(text, width=60, **more):
    rows = streaming_call_rows(
        "c1", StreamedText(text), width=width, theme=PLAIN, spinner="*", **more
    )
    assert not find_faults(rows, width)
    return plain(rows)


def test_arguments_are_shown_while_they_arrive():
    wrong = []
    for text, expected in [
        ("", "* a call c1  being written, 0 characters"),
        ("{", "* a call  being written, 1 character"),
        ('{"comm', "* a call  being written, 6 characters"),
        ('{"command": "pyt', "* $ pyt  being written, 16 characters"),
        ('{"command": "a\\n', "* $ a  being written, 16 characters"),
        ('{"command": "a\\u00', "* $ a  being written, 18 characters"),
        ('{"path": "a.py", "content": "on', "* write a.py  being written, 31 characters"),
        ('{"path": "a.py", "old_string', "* a call  being written, 28 characters"),
        ('{"path": "a.py", "old_string": "', "* edit a.py  being written, 32 characters"),
        ('{"x": ' + "[" * 5_000, "* a call  being written, 5,006 characters"),
    ]:
        shown = streaming(text)
        if shown != expected:
            wrong.append(f"{text[:40]!r}: {shown!r}")
    assert not wrong
    assert streaming('{"path": "a', name="read_file") == "* read a  being written, 11 characters"
    assert streaming('{"command": "x', agent="explore").startswith("* explore: $ x  being")


def test_the_last_lines_of_streaming_arguments_can_be_unfolded():
    text = '{"path": "a.py", "content": "one\\ntwo\\nthree'
    assert streaming(text, unfolded=True) == screen("""
        * write a.py  being written, 44 characters
            two
            three
        """)


# --- every row fits -------------------------------------------------------------------------------


def random_scene(generator):
    view = SessionView()
    agent = generator.choice(("main", "main", "explore-1"))
    if agent != "main":
        start_agent(view)
    names = ("run_terminal_cmd", "read_file", "edit_file", "search_files", "glob_search",
             "web_search", "web_fetch", "task", "call_tool", hostile_text(generator))  # fmt: skip
    keys = ("command", "path", "pattern", "url", "query", "name", hostile_text(generator)[:50])
    arguments = {key: hostile_text(generator) for key in generator.sample(keys, 3)}
    scene = Scene(view=view, agent=agent, **arguments)
    text = json.dumps(arguments)
    if generator.random() < 0.2:
        text = hostile_text(generator)
    scene.call = ToolCall("c1", generator.choice(names), text)
    scene.apply(ev.ModelAnswered, message=AssistantMessage((scene.call,)))
    if generator.random() < 0.3:
        return scene.ask() if generator.random() < 0.5 else scene
    scene.start(rewritten_by=(hostile_text(generator),), original="{}")
    scene.print(hostile_text(generator))
    if generator.random() < 0.2:
        return scene
    data = {
        "exit_code": generator.choice((0, 1, -9, None, True, "x")),
        "diff": hostile_text(generator) if generator.random() < 0.3 else None,
        "places": [[hostile_text(generator), 1], 3, None, []],
        "matches": 10**30,
        "paths": [hostile_text(generator), 4],
        "results": [{"title": hostile_text(generator)}, 7],
        "title": hostile_text(generator),
        "service": hostile_text(generator),
        "rule": hostile_text(generator),
    }
    code = generator.choice(("", "", "E_FAILED", "E_REJECTED", "E_DENIED", "E_STOPPED", "E_PLUGIN"))
    return scene.end(hostile_text(generator), code, **data)


def test_every_row_fits_for_hostile_texts():
    generator = random.Random(14)
    faults = []
    for _ in range(150):
        scene = random_scene(generator)
        width = generator.choice(WIDTHS)
        theme = generator.choice((PLAIN, Theme("256")))
        unfolded = generator.random() < 0.5
        rows = card_rows(
            scene.card, scene.view, width=width, now=BEGAN, theme=theme, spinner="⠋",
            unfolded=unfolded,
        )  # fmt: skip
        faults += find_faults(rows, width)
        text = StreamedText(hostile_text(generator))
        faults += find_faults(
            streaming_call_rows(
                hostile_text(generator), text, width=width, theme=theme, spinner="⠋", unfolded=True
            ),
            width,
        )
    assert not faults


@pytest.mark.parametrize("piece", ["x", "é", "ab ", "e\u0301", "\x1b[2J", "日"])
def test_lines_of_a_megabyte_are_shown_folded_and_live(piece):
    huge = piece * (1_000_000 // len(piece))
    scene = Scene("mcp_x", text=huge).start().print(huge)
    for _ in range(30):  # frames
        assert len(scene.rows(80)) == 2
    scene.end(huge)
    assert len(scene.rows(80)) == 2
    scene.end(huge, "E_FAILED")
    # Combining characters take no columns, so fewer rows are full.
    assert len(scene.rows(80)) in (4, 5)


def test_only_the_beginning_of_a_long_text_is_read():
    """It would take too long in each frame; and what is left out is marked."""
    assert short_line("\n \n" + "x" * 1_000_000) == "x" * 1_997 + "…"
    assert short_line(" " * 3_000 + "text") == "text"
    assert short_line("first\n" + "x" * 9_000) == "first"
    assert short_line("e" + "\u0301" * 5_000, 20).endswith("…")


# --- colors ---------------------------------------------------------------------------------------


def test_colors_of_marks():
    theme = Theme("16")
    for scene, style in [
        (command().start(), "accent"),
        (command().start().end("x", exit_code=0), "good"),
        (command().start().end("x", exit_code=1), "bad"),
        (command().start().end("x", "E_FAILED"), "bad"),
        (command().ask(), "warning"),
        (command().end("x", "E_BLOCKED"), "warning"),
        (command(), "dim"),
    ]:
        head = scene.rows(theme=theme)[0]
        assert head.startswith(f"\x1b[{theme.code(style)}m"), scene.show()
    head = command().start().end("x", exit_code=1).rows(theme=theme)[0]
    assert head == "\x1b[31m✗\x1b[0m \x1b[1m$\x1b[0m pytest -q  \x1b[31mexit 1 · 2.3 s\x1b[0m"
