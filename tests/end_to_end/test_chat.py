"""Conversations in a real terminal: the program in a pseudo-terminal, its screens as text."""

import signal
import subprocess
import termios
from pathlib import Path

import pytest
import trio
from full_disk import FULL_DISK
from hilum.messages import AssistantMessage, Text
from hilum_replay import Fault

pytestmark = pytest.mark.slow(cases=14, of="file")


def is_stopped(pid):
    """Check whether all threads of a process are stopped."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(") ")[2][0] for stat in stats} == {"T"}


READY = "ready · agent"
ESC = "\x1b"
SHIFT_TAB = "\x1b[Z"
UP = "\x1b[A"
HOOK = """
from hilum import hookimpl

@hookimpl
def provide_tools():
    return []
"""


def say(text: str) -> AssistantMessage:
    """An answer that ends the run."""
    return AssistantMessage((Text(text, "model"),), stop="end")


@pytest.fixture(autouse=True)
def project(cli):
    """A small Git project, and a key for the scripted model."""
    (cli.workspace / "a.py").write_text("x = 1\n")
    (cli.workspace / "src").mkdir()
    (cli.workspace / "src" / "parser.py").write_text("def parse(): ...\n")
    git = ["git", "-c", "user.email=a@example.org", "-c", "user.name=A"]
    for command in (["init", "-q", "-b", "trunk"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=cli.workspace, check=True)
    cli.env["OPENAI_API_KEY"] = "k"


async def test_a_first_conversation(cli, asks):
    """A prompt, a call, an answer; the branch in the status line; the way out and back."""
    async with (
        cli.model(asks("read_file", path="a.py"), say("It sets **x**.")),
        cli.on_screen() as screen,
    ):
        await screen.wait_for(READY)
        await screen.wait_for("trunk")
        await screen.type("What does a.py do?\r")
        await screen.wait_for("2 turns")
        assert "❯ What does a.py do?" in screen.text
        assert "✓ read a.py" in screen.text
        assert "It sets x." in screen.text
        await screen.type("\x03")
        await screen.wait_for("Press Ctrl-C again to exit.")
        await screen.type("\x03")
        assert await screen.end() == 0
        assert "To continue: hilum --resume " in screen.text
        assert screen.current_modes == screen.modes
        assert screen.raw.endswith(b"\n")
        assert b"\x1b[?2004l" in screen.raw
    identity = screen.text.rpartition("--resume ")[2].split()[0]
    async with cli.model(say("Yes.")), cli.on_screen("--resume", identity) as screen:
        await screen.wait_for(READY)
        await screen.wait_for("It sets x.")
        await screen.type("Sure?\r")
        await screen.wait_for("Yes.")


async def test_typing_does_not_approve_and_a_key_does(cli, asks):
    """The draft keeps every character; the call runs after Shift-Tab and y only."""
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("Done.")), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Write b.py\r")
        await screen.wait_for("waiting")
        await screen.type("please yes y 1\n")
        await screen.wait_for("please yes y 1")
        await trio.sleep(1.5)
        assert not (cli.workspace / "b.py").exists()
        await screen.type(SHIFT_TAB)
        await screen.wait_for("[y] yes, once")
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_for("Done.")
        assert (cli.workspace / "b.py").read_text() == "y = 2\n"
        assert any("please yes y 1" in row for row in screen.rows)


async def test_a_rejection_with_a_reason_reaches_the_model(cli, asks):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("As you wish.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Write b.py\r")
        await screen.wait_for("[n] no, with a reason")
        await trio.sleep(0.4)
        await screen.type("n")
        await screen.wait_for("Enter: deny")
        await screen.type("Use c.py instead")
        await trio.sleep(0.4)
        await screen.type("\r")
        await screen.wait_for("As you wish.")
        assert "Use c.py instead" in str(server.requests[-1].body)
        assert not (cli.workspace / "b.py").exists()
        assert "rejected" in screen.text


async def test_a_stop_gives_everything_back(cli):
    """The unread messages and the draft return to the input, and nothing is sent."""

    async def never(request):
        await trio.sleep_forever()

    async with cli.model(never) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Think long\r")
        await screen.wait_for("esc stops")
        await screen.type("steer one\r")
        await screen.wait_for("read after the current call")
        await screen.type("queued two\t")
        await screen.wait_for("sent when the agent has finished")
        await screen.type("a draft")
        await screen.type(ESC)
        await screen.wait_for("stopped")
        await screen.wait_gone("esc stops")
        for text in ("steer one", "queued two", "a draft"):
            await screen.wait_until(
                lambda text=text: any(text in row for row in screen.rows), f"{text} came back"
            )
        assert len(server.requests) <= 1


async def test_a_command_shows_its_output_and_its_failure(cli, asks):
    """A failed command never looks like a success."""
    command = "echo first; echo second; exit 3"
    async with (
        cli.model(asks("run_terminal_cmd", command=command), say("It failed.")),
        cli.on_screen("--approve", "auto") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Run it\r")
        await screen.wait_for("It failed.")
        assert f"✗ $ {command}" in screen.text
        assert "✓ $" not in screen.text
        assert "second" in screen.text


async def test_a_shell_line_runs_and_the_agent_reads_it(cli):
    async with cli.model(say("I see it.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("!echo from-the-shell; exit 4\r")
        await screen.wait_for("exit status 4")
        await screen.type("What came out?\r")
        await screen.wait_for("I see it.")
        assert "from-the-shell" in str(server.requests[0].body)


async def test_a_conversation_that_is_opened_again_has_the_output_that_no_prompt_had(cli):
    async with cli.model(say("Hello."), say("I see it.")) as server:
        async with cli.on_screen() as screen:
            await screen.wait_for(READY)
            await screen.type("Begin\r")
            await screen.wait_for("Hello.")
            await screen.type("!echo from-the-shell\r")
            await screen.wait_for("✓ ! echo from-the-shell")
            assert "The user ran" not in screen.text
            screen.process.send_signal(signal.SIGHUP)
            await screen.end()
        async with cli.on_screen("--continue") as screen:
            await screen.wait_for(READY)
            await screen.wait_for("The user ran `echo from-the-shell` in the terminal")
            await screen.wait_for("the agent also reads the output of 1 command that you ran")
            await screen.type("What came out?\r")
            await screen.wait_for("I see it.")
        assert "from-the-shell" in str(server.requests[1].body)


async def test_completion_and_history(cli):
    async with cli.model(say("One."), say("Two.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Look at @pars")
        await screen.wait_for("@src/parser.py")
        await screen.type("\t")
        await screen.wait_for("Look at @src/parser.py")
        await screen.type("\r")
        await screen.wait_for("One.")
        await screen.type(UP)
        await screen.type(" again\r")
        await screen.wait_for("Two.")
        assert "Look at @src/parser.py" in str(server.requests[1].body)
        await screen.type("/mod")
        await screen.wait_for("/mode")


async def test_the_terminal_goes_away(cli):
    """The program ends, and so does what it started."""

    async def never(request):
        await trio.sleep_forever()

    async with cli.model(never), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Think long\r")
        await screen.wait_for("esc stops")
        screen.process.send_signal(signal.SIGHUP)
        await screen.end()
        assert screen.current_modes == screen.modes


@pytest.mark.parametrize("size", [(60, 15), (200, 50)])
async def test_sizes(cli, asks, size):
    """No row is wider than the terminal, whatever its size."""
    columns, lines = size
    text = "A **bold** word. " * 30
    async with (
        cli.model(asks("read_file", path="a.py"), say(text)),
        cli.on_screen(columns=columns, lines=lines) as screen,
    ):
        await screen.wait_for("ready")
        await screen.type("Read\r")
        await screen.wait_for("2 turns")
        # A row that is too wide would be wrapped by the terminal, and drawn again in part.
        assert screen.text.count("word.") == 30
        screen.resize(columns - 10, lines)
        await screen.type("typed")
        await screen.wait_for("typed")
        assert screen.text.count("typed") == 1


async def test_another_session_takes_the_place_of_this_one(cli):
    """A prompt that is entered at once waits for it; the output of the old one is not sent."""
    async with cli.model(say("Old."), say("New.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("alpha-prompt\r")
        await screen.wait_for("Old.")
        await screen.type("!echo old-output\r")
        await screen.wait_for("✓ ! echo old-output")
        await screen.type("/clear\r")
        await screen.type("second\r")
        await screen.wait_for("New.")
        assert "This is a new conversation. To return to the earlier one: /resume" in screen.text
        request = str(server.requests[-1].body)
        assert "alpha-prompt" not in request
        assert "old-output" not in request


async def test_commands_and_their_menu(cli):
    """Enter sends what is complete; a command line runs as it was typed."""
    async with cli.model() as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("/mode plan")
        await trio.sleep(0.5)
        await screen.type("\r")
        await screen.wait_for("ready · plan")
        await screen.type("!echo src")
        await trio.sleep(0.5)
        await screen.type("\r")
        await screen.wait_for("✓ ! echo src")
        await screen.type("/nonsense\r")
        await screen.wait_for("There is no command /nonsense.")
        # Nothing that was typed went to the model as a prompt.
        assert server.count == 0


async def test_a_foreign_module_in_the_folder_is_not_run(cli):
    """Commands of hilum run in the folder, whose files must not take the place of modules."""
    package = cli.workspace / "hilum"
    package.mkdir()
    (package / "__init__.py").write_text("open('EVIL', 'w')\n")
    (cli.workspace / "json.py").write_text("open('EVIL', 'w')\n")
    async with cli.model(), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("/permissions\r")
        await screen.wait_for("No rules are stored")
        assert not (cli.workspace / "EVIL").exists()


async def test_after_a_crash_the_conversation_is_ready(cli, asks):
    """What was cut off is not shown as running, and the next prompt is sent."""
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Write b.py\r")
        await screen.wait_for("[y] yes, once")
        screen.process.kill()
        await screen.end()
    async with cli.model(say("Back.")), cli.on_screen("-c") as screen:
        await screen.wait_for("The last run was cut off.")
        await screen.wait_for(READY)
        await trio.sleep(1.5)
        assert "[y] yes, once" not in "\n".join(screen.rows)
        await screen.type("Go on\r")
        await screen.wait_for("Back.")
        assert not (cli.workspace / "b.py").exists()


async def test_after_a_crash_the_running_command_is_named(cli, asks):
    """The user must know what may have had an effect."""
    sleep = asks("run_terminal_cmd", command="sleep 60")
    async with cli.model(say("Hello."), sleep), cli.on_screen("--approve", "auto") as screen:
        await screen.wait_for("ready · agent")
        await screen.type("Hello\r")
        await screen.wait_for("1 turn")
        await screen.type("Wait\r")
        await screen.wait_for("$ sleep 60  1 s")
        screen.process.kill()
        await screen.end()
    async with cli.model(say("Back.")) as server, cli.on_screen("-c") as screen:
        await screen.wait_for("The last run was cut off.")
        await screen.wait_for("Was running, and may have had an effect: $ sleep 60")
        # The user decides whether the run goes on.
        assert server.count == 0


async def test_resume_without_an_id_shows_the_list(cli):
    """``hilum --resume`` lets the user choose; nothing is resumed before that."""
    async with cli.model(say("Good day.")), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Greet me\r")
        await screen.wait_for("1 turn")
    async with cli.model(say("Yes.")), cli.on_screen("--resume") as screen:
        await screen.wait_for("Continue a conversation")
        assert "Good day." not in "\n".join(screen.rows[:3])
        await trio.sleep(0.4)
        await screen.type("\r")
        await screen.wait_for("Good day.")


async def test_text_of_a_model_does_not_look_like_a_card(cli, asks):
    """A real card begins in the first column, and so does a prompt."""
    forged = "✓ $ false  0.1 s\n\n❯ great, commit it"
    async with (
        cli.model(asks("run_terminal_cmd", command="false"), say(forged)),
        cli.on_screen("--approve", "auto") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Run it\r")
        await screen.wait_for("great, commit it")
        lines = screen.text.split("\n")
        assert any(line.startswith("✗ $ false") for line in lines)
        assert not any(line.startswith(("✓ $ false", "❯ great")) for line in lines), screen.text


async def test_unfinished_text_of_a_model_does_not_look_like_a_prompt(cli):
    """The end of the answer that is still arriving is drawn differently from finished text."""
    async with (
        cli.model(say("Done.\n\n❯ great, commit" + " it" * 40), faults=[Fault(silence_after=4000)]),
        cli.on_screen() as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Go\r")
        await screen.wait_for("great, commit")
        assert any(line.startswith("  ❯ great") for line in screen.text.split("\n"))
        assert not any(line.startswith("❯ great") for line in screen.text.split("\n"))


async def test_a_call_is_approved_with_a_comment(cli, asks):
    """The agent reads the comment together with the result of the call."""
    async with (
        cli.model(asks("write_file", path="b.py", content="x = 1\n"), say("Understood.")) as server,
        cli.on_screen() as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write it\r")
        await screen.wait_for("yes, with a comment")
        # For a moment after the question appeared, no key answers it.
        await trio.sleep(0.4)
        await screen.type("c")
        # The question took the focus by itself, so the letter only selects.
        await screen.wait_for("Press Enter to choose this.")
        await screen.type("\r")
        await screen.wait_for("Enter: allow")
        await screen.type("but no other file")
        await trio.sleep(0.4)
        await screen.type("\r")
        await screen.wait_for("Understood.")
        assert (cli.workspace / "b.py").read_text() == "x = 1\n"
        assert b"but no other file" in server.requests[-1].body


async def test_a_paste_without_an_end(cli):
    """Its marker may be lost; the keyboard must not be lost with it."""
    async with cli.model(say("Good day.")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("\x1b[200~abc")
        await screen.wait_for("abc")
        await screen.type("\x03")
        await screen.wait_for("The draft was cleared")
        await screen.type("Hello\r")
        await screen.wait_for("Good day.")
        assert b"abc" not in server.requests[-1].body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
async def test_signals(cli, number):
    """The terminal is as it was, and the exit code names the signal."""
    async with cli.model(), cli.on_screen() as screen:
        await screen.wait_for(READY)
        screen.process.send_signal(number)
        assert await screen.end() == 128 + number
        assert screen.current_modes == screen.modes
        assert b"\x1b[?2004l" in screen.raw


async def test_a_terminal_that_does_not_read(cli):
    """Much text waits in the program, which still ends soon after a signal."""
    text = "\n\n".join(f"Paragraph {number} " + "word " * 60 for number in range(1000))
    async with cli.model(say(text)), cli.on_terminal("Write much") as terminal:
        await terminal.see("Paragraph 1 ")
        await trio.sleep(2)
        terminal.process.send_signal(signal.SIGTERM)
        with trio.fail_after(6):
            assert await terminal.process.wait() == 128 + signal.SIGTERM


async def test_a_stop_from_outside(cli, wait_until):
    """The shell takes the terminal when something stops hilum with SIGSTOP, and gives it back."""
    async with cli.model(say("Yes.")), cli.on_screen() as screen:
        await screen.wait_for(READY)
        raw = screen.current_modes
        screen.process.send_signal(signal.SIGSTOP)
        await wait_until(lambda: is_stopped(screen.process.pid))
        # Through our end, as a shell does through its own descriptor.
        termios.tcsetattr(screen.descriptor, termios.TCSANOW, screen.modes)
        screen.process.send_signal(signal.SIGCONT)
        await wait_until(lambda: screen.current_modes == raw)
        await screen.type("Are you there?\r")
        await screen.wait_for("Yes.")
        assert screen.current_modes == raw
        await screen.type("/exit\r")
        assert await screen.end() == 0
        assert screen.current_modes == screen.modes


async def test_a_paste_that_stalls_is_not_typed(cli):
    """A slow connection may stop for a second in the middle of a paste."""
    async with cli.model(say("never")) as server, cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("\x1b[200~first line")
        await screen.wait_for("first line")
        await screen.type("\r!touch pwned\ry\r\x1b[201~")
        await screen.wait_for("!touch pwned")
        await screen.type("end")
        await screen.wait_for("end")
        assert not (cli.workspace / "pwned").exists()
        assert server.requests == []


async def test_undo_works_after_a_command_of_the_user(cli, asks):
    async with (
        cli.model(asks("write_file", path="b.py", content="x = 1\n"), say("Written.")),
        cli.on_screen("--approve", "auto") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write it\r")
        await screen.wait_for("Written.")
        await screen.type("!true\r")
        await screen.wait_for("✓ ! true")
        await screen.type("/undo\r")
        await screen.wait_for("Undo these changes")
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_for("Undone: b.py")
        assert not (cli.workspace / "b.py").exists()


async def test_a_key_for_the_editor_does_not_allow_the_call(cli, asks):
    """Typed ahead while the editor was open; the edited call has to be allowed itself."""
    editor = cli.folder / "editor"
    editor.write_text('#!/bin/sh\nsleep 1\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    async with (
        cli.model(asks("write_file", path="b.py", content="one\n"), say("Written.")),
        cli.on_screen(VISUAL=str(editor)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write it\r")
        await screen.wait_for("[e] edit first")
        await trio.sleep(0.4)
        await screen.type("e")
        # The letter is held for 0.75 seconds, because a word could follow.
        await trio.sleep(1.1)
        await screen.type("y")
        await screen.wait_for("were edited")
        assert not (cli.workspace / "b.py").exists()
        # The letter went to the draft, where it can be removed.
        await screen.wait_for("❯ y")
        # The edited call has the focus again.
        await screen.wait_for("[y] yes, once")
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_for("Written.")
        assert (cli.workspace / "b.py").read_text() == "two\n"


async def test_what_is_typed_for_the_editor_is_neither_lost_nor_misread(cli, asks):
    """Keys arrive together with the one that opens the editor, before it has the terminal."""
    editor = cli.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    async with (
        cli.model(asks("write_file", path="b.py", content="one\n"), say("Written.")) as server,
        cli.on_screen(VISUAL=str(editor)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("one\x07typed\r")
        await screen.wait_for("What you typed before")
        assert "twotyped" in screen.text
        assert not server.requests
        await screen.type("\x03")
        await screen.type("Write it\r")
        await screen.wait_for("[e] edit first")
        await trio.sleep(0.6)
        # Keys that arrive together answer nothing.
        await screen.type("ey")
        await screen.wait_for("❯ ey")
        assert not (cli.workspace / "b.py").exists()
        assert len(server.requests) == 1


async def test_padding_does_not_hide_what_a_command_does(cli, asks):
    """Blank lines are counted instead of shown."""
    command = "echo start" + "\n" * 500 + "touch pwned" + "\n" * 500 + "echo end"
    async with (
        cli.model(asks("run_terminal_cmd", command=command), say("Never.")),
        cli.on_screen(columns=80, lines=24) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Run it\r")
        await screen.wait_for("[y] yes, once")
        assert "touch pwned" in screen.text
        assert "blank rows" in screen.text


async def test_ctrl_b_moves_a_command_to_the_background(cli, asks):
    """The agent goes on at once; the command goes on, too, until the user stops it."""
    command = "echo begun; sleep 1000"
    async with (
        cli.model(asks("run_terminal_cmd", command=command), say("It runs.")) as server,
        cli.on_screen("--approve", "auto") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Run it\r")
        await screen.wait_for("    begun")
        # In a draft, the key moves the cursor.
        await screen.type("a draft\x02X")
        await screen.wait_for("a drafXt")
        await screen.type("\x03")
        await screen.wait_for("The draft was cleared")
        assert "in the background" not in screen.text
        await screen.type("\x02")
        await screen.wait_for("It runs.")
        assert "▸ $ echo begun" in screen.text
        assert "still running in the background as s1" in screen.text
        result = str(server.requests[-1].body)
        assert "The user moved the command to the background after " in result
        assert "begun" in result.partition("Its output so far:")[2]
        await screen.type("/ps\r")
        await screen.wait_for("s1  command ·")
        await screen.type("/stop s1\r")
        await screen.wait_for("Stopped: s1")
        await screen.type("\x02")
        await screen.wait_for("The agent is not waiting for a command.")


async def test_a_question_in_small_windows(cli, asks):
    """The danger, the command and the choices have rows before anything else has."""
    command = "rm -rf src && echo gone"
    async with (
        cli.model(asks("run_terminal_cmd", command=command), say("I see.")),
        cli.on_screen(columns=60, lines=15) as screen,
    ):
        await screen.wait_for("ready")
        await screen.type("Clean up\r")
        await screen.wait_for("[y] yes")
        for columns, lines in ((60, 15), (40, 8), (20, 5)):
            screen.resize(columns, lines)
            last = "c  v  w" if columns == 20 else "[w]"
            await screen.wait_until(lambda last=last: last in "\n".join(screen.rows), last)
            rows = "\n".join(screen.rows)
            assert "● dangerous" in rows, (columns, rows)
            assert "! deletes src" in rows, (columns, rows)
            assert "rm -rf" in rows, (columns, rows)
        # A text that the user types has a row, too.
        await screen.type("\x1b[Z")
        await screen.type("hello")
        await screen.wait_for("hello")
        screen.resize(60, 15)
        await screen.wait_for("dangerous")
        assert (cli.workspace / "src").exists()


async def test_an_edit_in_a_small_window_shows_its_changed_lines(cli, asks):
    """They come before the unchanged lines around them and before the reason."""
    lines = [f"line {number}" for number in range(1, 30)]
    (cli.workspace / "calc.py").write_text("\n".join(lines) + "\n")
    edit = asks("edit_file", path="calc.py", old_string="line 15\n", new_string="line fifteen\n")
    async with (
        cli.model(asks("read_file", path="calc.py"), edit, say("Done.")),
        cli.on_screen(columns=60, lines=15) as screen,
    ):
        await screen.wait_for("ready")
        await screen.type("Change it\r")
        await screen.wait_for("[y] yes")
        assert "- line 15" in screen.text
        assert "+ line fifteen" in screen.text
        screen.resize(60, 30)
        # With enough room, the unchanged lines are shown, too.
        await screen.wait_for("  line 14")


async def test_a_refused_shell_line_speaks_to_the_user(cli):
    """What the model should do next is left out, and generated files are not offered after @."""
    (cli.workspace / "__pycache__").mkdir()
    (cli.workspace / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"")
    async with cli.model(), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("!rm -rf /\r")
        await screen.wait_for("To run it anyway, use another terminal.")
        assert "tell the user" not in screen.text
        await screen.type("@a")
        await screen.wait_for("@a.py")
        assert "__pycache__" not in "\n".join(screen.rows)


async def test_a_shell_line_that_the_sandbox_refuses_is_explained(cli):
    """The system's message alone does not say who refuses, and what the user can do."""
    async with cli.model(say("never")), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("!echo x > .git/hooks/pre-commit\r")
        await screen.wait_for("✗ ! echo x")
        await screen.wait_for("Change it in your editor or in another terminal")
        assert "! The sandbox protects .git/hooks" in screen.text
        await screen.type("!ls missing-file\r")
        await screen.wait_for("✗ ! ls")
        assert screen.text.count("The sandbox") == 1


async def test_copy_uses_the_clipboard_of_the_display(cli, tmp_path):
    """A long answer is copied by a program; without one, hilum says that nothing was copied."""
    answer = "word " * 16_000
    program = tmp_path / "wl-copy"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{cli.env.get('PATH', '/usr/bin:/bin')}"
    bare = {"DISPLAY": "", "SSH_CONNECTION": "", "WSL_DISTRO_NAME": ""}
    async with (
        cli.model(say(answer)),
        cli.on_screen(**bare, WAYLAND_DISPLAY="wayland-0", PATH=path) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write.\r")
        await screen.wait_for("1 turn")
        await screen.type("/copy\r")
        await screen.wait_for("with wl-copy")
        assert (tmp_path / "copied").read_text() == answer.strip()
        assert b"]52;" not in screen.raw
    async with cli.model(), cli.on_screen("-c", **bare, WAYLAND_DISPLAY="") as screen:
        await screen.wait_for(READY)
        await screen.type("/copy\r")
        await screen.wait_for("E_TOO_LARGE")
        assert "Nothing was copied" in screen.text
        assert b"]52;" not in screen.raw


async def test_a_question_ends_when_the_log_cannot_be_written(cli, asks):
    """Its keys would do nothing, because no answer can be written."""
    plugin = cli.folder / "full_disk.py"
    plugin.write_text(FULL_DISK + HOOK)
    async with (
        cli.model(asks("write_file", path="b.py", content="one\n"), say("Written.")),
        cli.on_screen("--plugin", str(plugin)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write it\r")
        await screen.wait_for("[e] edit first")
        (cli.workspace / "full").touch()
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_for("E_STORE")
        await screen.wait_for("No longer waiting: the log of the conversation cannot be written")
        assert "[e] edit first" not in screen.text
        assert not (cli.workspace / "b.py").exists()
