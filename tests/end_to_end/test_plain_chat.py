"""Conversations in plain lines: ``hilum --plain``, as screen readers and simple terminals get them."""

import json
import os
import re
import signal
import subprocess
import termios
import time

import pytest
import trio
from full_disk import FULL_DISK
from hilum.messages import AssistantMessage, Text, ToolCall

pytestmark = pytest.mark.slow(cases=14, of="file")

READY = "/help the commands"
CHOICES = "Type one of these, then Enter:"
# Seconds after a question in which no line answers it, with a margin.
READ_QUESTION = 0.5
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_G = "\x07"
CTRL_S = "\x13"
CTRL_Q = "\x11"


HOOK = """
from hilum import hookimpl

@hookimpl
def provide_tools():
    return []
"""


def say(text: str) -> AssistantMessage:
    """An answer that ends the run."""
    return AssistantMessage((Text(text, "model"),), stop="end")


async def never(*_: object) -> None:
    """An answer that does not come."""
    await trio.sleep_forever()


async def reply(screen, question: str, line: str) -> None:
    """Answer a question as a person does: after reading it."""
    await screen.wait_for(question)
    await trio.sleep(READ_QUESTION)
    await screen.type(f"{line}\n")


def check_plain(screen) -> None:
    """Check that nothing but text was written, apart from the bell."""
    raw = bytes(screen.raw)
    assert set(re.findall(rb"[\x00-\x1f\x7f]", raw)) <= {b"\r", b"\n", b"\t", b"\x07"}, raw
    text = raw.decode()
    assert not re.search("[\u2500-\u259f\x80-\x9f]", text), text


async def leave(screen) -> None:
    """Leave with Ctrl-D, and check what is left behind."""
    await screen.type(CTRL_D)
    assert await screen.end() == 0
    assert screen.current_modes == screen.modes
    check_plain(screen)


@pytest.fixture(autouse=True)
def project(cli):
    """A small project, and a key for the scripted model."""
    (cli.workspace / "a.py").write_text("x = 1\n")
    git = ["git", "-c", "user.email=a@example.org", "-c", "user.name=A"]
    for command in (["init", "-q", "-b", "trunk"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=cli.workspace, check=True)
    cli.env["OPENAI_API_KEY"] = "k"


@pytest.fixture
def plugin(cli):
    """Writes a plugin that runs code in the program, and returns the options that load it."""

    def write(code: str) -> tuple[str, str]:
        path = cli.folder / "changes.py"
        path.write_text(code + HOOK)
        return "--plugin", str(path)

    return write


# --- conversations --------------------------------------------------------------------------------


async def test_a_first_conversation(cli, asks):
    """A prompt on the command line, Markdown without control characters, and the way back."""
    text = "# Title\n\nIt **sets** `x`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\n---\n\n- one\n"
    read = asks("read_file", path="a.py")
    async with cli.model(read, say(text)), cli.on_screen("--plain", "What is it?") as screen:
        await screen.wait_for("2 turns")
        assert "❯ What is it?" in screen.text
        assert "read a.py" in screen.text
        await leave(screen)
        assert "To continue: hilum --resume " in screen.text
    async with cli.model(say("Sure.")), cli.on_screen("--plain", "-c", "Sure?") as screen:
        await screen.wait_for("It sets `x`.")
        await screen.wait_for("Sure.")
        await leave(screen)


async def test_a_typed_prompt_is_written_once(cli, wait_until):
    """The terminal shows it while it is typed; a prompt that waits is written when it begins."""
    release = trio.Event()

    async def later():
        await release.wait()
        return say("One.")

    async with (
        cli.model(later, say("Two."), say("Three.")) as model,
        cli.on_screen("--plain") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("First prompt\n")
        await wait_until(lambda: model.count == 1)
        release.set()
        await screen.wait_for("One.")
        await screen.type("Second prompt\n")
        await screen.wait_for("Two.")
        assert screen.text.count("First prompt") == screen.text.count("Second prompt") == 1
        assert "❯" not in screen.text
        await leave(screen)


async def test_a_line_that_is_no_answer_is_sent_and_the_question_stays(cli, asks):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("Done.")), cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type("Write it\n")
        await reply(screen, CHOICES, "maybe")
        await screen.wait_for("This is not an answer, so the agent reads it as text.")
        await screen.wait_for("The question is still open: yes; session;")
        assert not (cli.workspace / "b.py").exists()
        # A line allows something only if it comes alone.
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "b.py").exists()
        # The agent has read the line with the result of the call.
        assert "❯ maybe" in screen.text
        await leave(screen)


@pytest.mark.parametrize("prompt", ["#42: fix the test", "!touch ran"])
async def test_an_argument_is_neither_a_memory_nor_a_shell_line(cli, prompt):
    async with cli.model(say("Fine.")) as server, cli.on_screen("--plain", prompt) as screen:
        await screen.wait_for("Fine.")
        assert prompt in str(server.requests[-1].body)
        await leave(screen)
    assert not (cli.workspace / "ran").exists()


@pytest.mark.parametrize(
    ("options", "env", "size"),
    [
        ((), {"TERM": "dumb"}, (100, 40)),
        ((), {"TERM": ""}, (100, 40)),
        ((), {}, (20, 5)),
        (("--plain",), {"LC_ALL": "C", "PYTHONUTF8": "0"}, (100, 40)),
        (("--plain",), {"NO_COLOR": "1", "COLORTERM": "truecolor"}, (100, 40)),
    ],
    ids=["dumb", "no TERM", "tiny", "C locale", "NO_COLOR"],
)
async def test_simple_terminals(cli, asks, options, env, size):
    write = asks("write_file", path="b.py", content="y = '–é\x1b[31m'\n")
    columns, lines = size
    screens = cli.on_screen(*options, columns=columns, lines=lines, **env)
    async with cli.model(write, say("Dönë – “fine”.")), screens as screen:
        await screen.type("Schreibe: é\n")
        await screen.wait_until(lambda: b"view: the" in screen.raw, "the question")
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_until(lambda: "“fine”".encode() in screen.raw, "the answer")
        assert (cli.workspace / "b.py").exists()
        await leave(screen)


async def test_commands_and_questions_of_commands(cli):
    async with cli.model(say("One.")), cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type("/help\n")
        await screen.wait_for("/rewind")
        await screen.type("?\n")
        await screen.wait_until(lambda: screen.text.count("Type a prompt and press") == 2, "help")
        await screen.type("/model\n")
        await reply(screen, "Number, or Enter to cancel:", "99999")
        await reply(screen, "Please type a number from 1", "1")
        await screen.wait_until(lambda: screen.text.count("Number, or") == 2, "asked again")
        await screen.type("Hello\n")
        await screen.wait_for("One.")
        await screen.type("/exit\n")
        assert await screen.end() == 0
        check_plain(screen)


async def test_a_line_that_arrives_together_with_an_answer_is_not_lost(cli):
    async with cli.model(say("One.")) as server, cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type("/model\n")
        await reply(screen, "Number, or Enter to cancel:", "1\nHello")
        await screen.wait_for("One.")
        [request] = server.requests
        assert b"Hello" in request.body
        await leave(screen)


async def test_a_text_that_begins_with_a_space_is_never_a_command(cli):
    async with (
        cli.model(say("A shell line."), say("A command.")) as server,
        cli.on_screen("--plain") as screen,
    ):
        await screen.wait_for("hilum 0")
        await screen.type(" !touch pwned\n")
        await screen.wait_for("A shell line.")
        await screen.type(" /help\n")
        await screen.wait_for("A command.")
        assert not (cli.workspace / "pwned").exists()
        assert b"!touch pwned" in server.requests[0].body
        assert b"/help" in server.requests[1].body


async def test_ctrl_d_leaves_a_question_and_input_still_works(cli):
    async with cli.model(say("One.")) as server, cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type("/model\n")
        await screen.wait_for("Number, or Enter")
        await screen.type(CTRL_D)
        await trio.sleep(0.2)
        await screen.type("Hello\n")
        await screen.wait_for("One.")
        [request] = server.requests
        assert b"Hello" in request.body
        await leave(screen)


async def test_only_yes_confirms(cli, asks, wait_until):
    """``/clear`` asks while the agent works; afterwards, calls are announced again."""
    command = asks("run_terminal_cmd", command="sleep 1.2; echo ok")
    answers = (say("One."), never, command, say("Two."))
    async with (
        cli.model(command, *answers) as model,
        cli.on_screen("--plain", "--approve", "auto") as screen,
    ):
        await screen.type("First\n")
        await screen.wait_for("One.")
        assert screen.text.count("running: $ sleep 1.2; echo ok") == 1
        await screen.type("Think\n")
        await wait_until(lambda: model.count == 3)
        await screen.type("/clear\n")
        await reply(screen, "Type yes (Stop it)", "y")
        await trio.sleep(0.3)
        await screen.type("/clear\n")
        await screen.wait_until(lambda: screen.text.count("Type yes (Stop it)") == 2, "asked")
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("This is a new conversation.")
        await screen.type("Second\n")
        await screen.wait_for("Two.")
        assert screen.text.count("running: $ sleep 1.2; echo ok") == 2
        await leave(screen)


# --- approvals ------------------------------------------------------------------------------------


async def test_a_question_says_everything_and_session_covers_it(cli, asks):
    edits = [
        asks("edit_file", path="a.py", old_string=f"x = {n}", new_string=f"x = {n + 1}")
        for n in (1, 2)
    ]
    read = asks("read_file", path="a.py")
    async with cli.model(read, *edits, say("Done.")), cli.on_screen("--plain") as screen:
        await screen.type("Count up\n")
        await screen.wait_for("view: the whole call")
        for part in (
            "Approval needed: edit_file",
            "Why: ",
            f"Folder: {cli.workspace}",
            "yes: this call, once",
            "session: every call of edit_file, until this session ends",
            "After 5 min without an answer, the call is denied.",
        ):
            assert part in screen.text.replace("\n", " "), part
        assert "Sandbox:" not in screen.text
        await trio.sleep(READ_QUESTION)
        await screen.type("session\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "a.py").read_text() == "x = 3\n"
        assert screen.text.count("Approval needed") == 1
        await leave(screen)


async def test_what_was_typed_before_the_question_does_not_answer_it(cli, asks):
    """Lines that arrive together with the question are text; a word within a line is, too."""
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("Done.")) as server, cli.on_screen("--plain") as screen:
        await screen.type("Write b.py\n")
        await screen.wait_for("Approval needed")
        await screen.type("yes\nsession\n")
        await screen.wait_for("sent as a message")
        await trio.sleep(READ_QUESTION)
        await screen.type("yes please\n")
        await trio.sleep(READ_QUESTION)
        assert not (cli.workspace / "b.py").exists()
        await screen.type("y\n")
        await screen.wait_for("Please type the whole word: yes")
        # A line allows something only if it comes alone.
        await trio.sleep(READ_QUESTION)
        await screen.type("YES\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "b.py").exists()
        said = json.loads(server.requests[-1].body)["messages"][-1]["content"]
        assert said.split("\n\n") == ["yes", "session", "yes please"]
        await leave(screen)


async def test_a_busy_program_does_not_take_an_old_line_for_an_answer(cli, asks, plugin):
    """The program is busy after the question was written; the line was typed meanwhile."""
    busy = plugin(
        "import time\n"
        "import trio\n"
        "from hilum_terminal.plain_face import PlainFace\n"
        "begin = PlainFace._begin_question\n"
        "async def stall():\n"
        "    await trio.sleep(0.05)\n"
        "    time.sleep(1.5)\n"
        "def begin_busily(self, question):\n"
        "    begin(self, question)\n"
        "    self._nursery.start_soon(stall)\n"
        "PlainFace._begin_question = begin_busily\n"
    )
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("Done.")), cli.on_screen("--plain", *busy) as screen:
        await screen.type("Write b.py\n")
        await screen.wait_for("view: the whole call")
        await trio.sleep(0.3)
        await screen.type("yes\n")
        await screen.wait_for("sent as a message")
        assert not (cli.workspace / "b.py").exists()


async def test_a_reason_reaches_the_model(cli, asks):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("As you wish.")) as server, cli.on_screen("--plain") as screen:
        await screen.type("Write b.py\n")
        await reply(screen, "view: the whole call", "No, use c.py instead")
        await screen.wait_for("As you wish.")
        assert "use c.py instead" in str(server.requests[-1].body)
        assert not (cli.workspace / "b.py").exists()
        await leave(screen)


async def test_ctrl_d_at_an_approval_denies_the_call(cli, asks):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("As you wish.")), cli.on_screen("--plain") as screen:
        await screen.type("Write b.py\n")
        await screen.wait_for("view: the whole call")
        await trio.sleep(READ_QUESTION)
        await screen.type(CTRL_D)
        await screen.wait_for("As you wish.")
        assert "Denied." in screen.text
        await leave(screen)


async def test_always_shows_the_rule_first(cli, asks):
    command = asks("run_terminal_cmd", command="touch made")
    async with (
        cli.model(command, command, say("Done.")),
        cli.on_screen("--plain", "--set", "guard.sandbox=off") as screen,
    ):
        await screen.type("Make it\n")
        await screen.wait_for("Sandbox: no sandbox")
        await reply(screen, "view: the whole call", "always")
        await screen.wait_for("This rule is stored:")
        assert "run_terminal_cmd(" in screen.text
        await reply(screen, "Type yes to store it", "no")
        await screen.wait_until(lambda: screen.text.count(CHOICES) == 2, "the choices again")
        await trio.sleep(READ_QUESTION)
        await screen.type("always\n")
        await screen.wait_until(lambda: screen.text.count("Type yes to store it") == 2, "again")
        assert not (cli.workspace / "made").exists()
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "made").exists()
        await leave(screen)


async def test_a_dangerous_call_has_no_lasting_answer(cli, asks):
    (cli.workspace / "src").mkdir()
    command = asks("run_terminal_cmd", command="rm -rf src")
    async with cli.model(command, say("Kept.")), cli.on_screen("--plain") as screen:
        await screen.type("Clean up\n")
        await screen.wait_for("view: the whole call")
        assert "Danger: " in screen.text
        assert "session:" not in screen.text
        assert "always:" not in screen.text
        for word in ("session", "always"):
            await trio.sleep(READ_QUESTION)
            await screen.type(f"{word}\n")
        await screen.wait_until(
            lambda: screen.text.count("This call is dangerous: hilum asks") == 2, "refused twice"
        )
        assert (cli.workspace / "src").exists()
        await screen.type("no\n")
        await screen.wait_for("Kept.")
        await leave(screen)


async def test_view_and_edit(cli, asks):
    """A long call is shortened, ``view`` shows all of it, and the edited version runs."""
    editor = cli.folder / "editor.sh"
    # It reads a line and leaves the terminal without echo, as an editor that crashes.
    editor.write_text(
        '#!/bin/sh\nstty -echo\necho EDITOR-RUNS\nread line\nsed -i "s/row 1,/$line,/" "$1"\n'
    )
    editor.chmod(0o755)
    content = "\n".join(f"row {number}," for number in range(1, 100))
    write = asks("write_file", path="b.txt", content=content)
    async with (
        cli.model(write, say("Done.")),
        cli.on_screen("--plain", EDITOR=str(editor), VISUAL="") as screen,
    ):
        await screen.type("Write\n")
        await reply(screen, "view: the whole call", "view")
        await screen.wait_until(lambda: screen.text.count(CHOICES) == 2, "the choices again")
        assert "lines left out; view shows all" in screen.text
        assert screen.text.count("row 50,") == 1
        await trio.sleep(READ_QUESTION)
        await screen.type("edit\n")
        await screen.wait_for("EDITOR-RUNS")
        await trio.sleep(READ_QUESTION)
        await screen.type("edited\n")
        await screen.wait_for("The arguments were edited; this version will run.")
        assert not (cli.workspace / "b.txt").exists()
        assert screen.current_modes == screen.modes
        await trio.sleep(READ_QUESTION)
        await screen.type("session\n")
        await screen.wait_for("An edited call can be approved only once.")
        # A line allows something only if it comes alone.
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "b.txt").read_text().startswith("edited,\nrow 2,")
        await leave(screen)


def three_writes() -> AssistantMessage:
    """An answer with three calls that need approval."""
    calls = [
        ToolCall(f"c{name}", "write_file", f'{{"path": "{name}.txt", "content": "1"}}')
        for name in ("one", "two", "three")
    ]
    return AssistantMessage(tuple(calls), stop="calls")


async def test_a_line_typed_before_the_editor_opens_is_no_answer(cli, asks):
    editor = cli.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    write = asks("write_file", path="b.py", content="one\n")
    async with (
        cli.model(write, say("Written.")) as server,
        cli.on_screen("--plain", VISUAL=str(editor)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write\n")
        await reply(screen, "view: the whole call", "edit\nyes\n:wq")
        await screen.wait_for("Not sent: :wq")
        assert "Not sent: yes" in screen.text
        await screen.wait_for("The arguments were edited")
        assert not (cli.workspace / "b.py").exists()
        await reply(screen, "The arguments were edited", "yes")
        await screen.wait_for("Written.")
        assert (cli.workspace / "b.py").read_text() == "two\n"
        # The lines were not sent to the agent either.
        assert len(server.requests) == 2
        await leave(screen)


async def test_a_question_ends_when_the_log_cannot_be_written(cli, asks, plugin):
    """The question must not stay open, because no answer can reach it."""
    write = asks("write_file", path="b.py", content="one\n")
    async with (
        cli.model(write, say("Written.")),
        cli.on_screen("--plain", *plugin(FULL_DISK)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Write\n")
        await screen.wait_for("view: the whole call")
        (cli.workspace / "full").touch()
        await reply(screen, "view: the whole call", "yes")
        await screen.wait_for("E_STORE")
        await screen.wait_for("cannot accept answers")
        asked = screen.text.count("view: the whole call")
        await screen.type("?\n")
        await screen.wait_until(lambda: screen.text.count("Type a prompt and") == 2, "the help")
        assert screen.text.count("view: the whole call") == asked == 1
        assert "Allowed" not in screen.text
        assert not (cli.workspace / "b.py").exists()
        await screen.type(CTRL_D)
        # The exit code of E_STORE.
        assert await screen.end() == 5


async def test_several_wait(cli, plugin):
    """Each is asked about by itself; a lasting answer names the others that it covers."""
    clock = plugin(
        "import hilum_terminal.chat as chat\n"
        "start_clock = chat.ChatCommands.start_clock\n"
        "def start(self, identity):\n"
        "    start_clock(self, identity)\n"
        "    self.say(f'CLOCK {identity}')\n"
        "chat.ChatCommands.start_clock = start\n"
    )
    async with cli.model(three_writes(), say("Done.")), cli.on_screen("--plain", *clock) as screen:
        await screen.type("Write\n")
        await screen.wait_for("1 of 3")
        await trio.sleep(READ_QUESTION)
        # Lines that arrive together allow nothing.
        await screen.type("yes\nyes\n")
        await screen.wait_for("came together with other text")
        assert not (cli.workspace / "one.txt").exists()
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_until(lambda: screen.text.count("CLOCK ") == 2, "the second question")
        await trio.sleep(READ_QUESTION)
        assert not (cli.workspace / "two.txt").exists()
        await screen.type("session\n")
        await screen.wait_for("Done.")
        assert (cli.workspace / "three.txt").exists()
        assert "This includes other calls that wait now:" in screen.text
        # The time limit of each began when its question could be read.
        clocks = re.findall("CLOCK (.*)", screen.text)
        assert len(clocks) == len(set(clocks)) == 2
        await leave(screen)


async def test_an_approval_expires(cli, asks):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with (
        cli.model(write, say("Too late.")) as server,
        cli.on_screen("--plain", "--set", "approval_timeout=1") as screen,
    ):
        await screen.type("Write\n")
        await screen.wait_for("No longer waiting: the time limit was reached.")
        await screen.wait_for("Too late.")
        assert not (cli.workspace / "b.py").exists()
        assert b"E_DENIED" in server.requests[-1].body
        await leave(screen)


async def test_a_question_of_the_agent(cli, asks):
    question = asks("ask_question", question="Which one?", options=["red", "blue"])
    async with cli.model(question, say("Blue.")) as server, cli.on_screen("--plain") as screen:
        await screen.type("Paint it\n")
        await screen.wait_for("2: blue")
        await reply(screen, "skip: the agent decides", "3")
        await screen.wait_for("Type a number from 1 to 2.")
        await screen.type("2\n")
        await screen.wait_for("Blue.")
        assert "blue" in json.loads(server.requests[-1].body)["messages"][-1]["content"]
        await leave(screen)


async def test_a_question_of_a_command_comes_before_what_waits(cli, asks):
    """A "yes" has one meaning: the approval is asked about again after the command's question."""
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write, say("Done.")), cli.on_screen("--plain") as screen:
        await screen.type("Write b.py\n")
        await screen.wait_for("view: the whole call")
        await screen.type("/model\n")
        await reply(screen, "Number, or Enter to cancel:", "yes")
        await screen.wait_for("Please type a number")
        assert not (cli.workspace / "b.py").exists()
        await trio.sleep(READ_QUESTION)
        await screen.type("\n")
        await screen.wait_until(lambda: screen.text.count("Approval needed") == 2, "asked again")
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("Done.")
        await leave(screen)


async def test_plans(cli):
    """A plan is refused with a reason, put off, and forgotten with its session."""
    answers = (say("1. Do it."), say("2. Better."), say("A prompt."))
    async with (
        cli.model(*answers) as server,
        cli.on_screen("--plain", "--mode", "plan") as screen,
    ):
        await screen.type("Plan it\n")
        await reply(screen, "view: the whole plan", "no, do it better")
        await screen.wait_for("2. Better.")
        await screen.wait_until(lambda: screen.text.count(CHOICES) == 2, "asked again")
        assert "do it better" in str(server.requests[-1].body)
        await trio.sleep(READ_QUESTION)
        await screen.type("/clear\n")
        await screen.wait_for("This is a new conversation.")
        await trio.sleep(READ_QUESTION)
        await screen.type("yes\n")
        await screen.wait_for("A prompt.")
        await reply(screen, "view: the whole plan", "later")
        await leave(screen)


@pytest.mark.parametrize("way", ["Ctrl-D", "SIGTERM"])
async def test_the_question_about_trust(cli, way):
    """Ctrl-D leaves the question and SIGTERM the program; the folder is not trusted."""
    server = {"command": "touch", "args": [str(cli.folder / "started")]}
    (cli.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": server}}))
    async with cli.model(say("One.")), cli.on_screen("--plain", "Hello") as screen:
        await screen.wait_for("Number, or Enter to cancel:")
        if way == "SIGTERM":
            screen.process.terminate()
            assert await screen.end() == 128 + signal.SIGTERM
        else:
            await screen.type(CTRL_D)
            await screen.wait_for("One.")
            await leave(screen)
    assert not (cli.folder / "started").exists()


# --- errors, silence, and the way out -------------------------------------------------------------


async def test_an_unexpected_error_does_not_end_the_conversation(cli, plugin):
    broken = plugin(
        "import hilum_terminal.chat as chat\n"
        "async def remember(self, text):\n"
        "    raise ValueError('a \\x1b[31m mistake')\n"
        "chat.ChatCommands.remember = remember\n"
        "async def run_shell(self, command):\n"
        "    raise KeyError('another')\n"
        "import hilum_terminal.conversation as conversation\n"
        "conversation.Conversation.run_shell = run_shell\n"
        "print('\\x1b[1mprinted by a plugin\\x1b[0m')\n"
    )
    async with cli.model(say("One.")), cli.on_screen("--plain", *broken) as screen:
        await screen.wait_for(READY)
        assert "printed by a plugin" in screen.text
        await screen.type("#remember\n")
        await screen.wait_for("This is a bug in hilum")
        await screen.type("!ls\n")
        await screen.wait_for("KeyError")
        await screen.type("Hello\n")
        await screen.wait_for("One.")
        await leave(screen)


async def test_a_long_silence(cli, plugin):
    short = plugin("import hilum_terminal.plain_face as face\nface.SILENCE = 0.5\n")
    async with cli.model(never), cli.on_screen("--plain", *short) as screen:
        await screen.wait_for(READY)
        await trio.sleep(1)
        assert "still working" not in screen.text
        await screen.type("Think\n")
        await screen.wait_for("… still working (0.5 s)")
        await screen.wait_for("… still working (1.0 s)")
        await screen.type(CTRL_C)
        await screen.wait_for("stopped")
        await leave(screen)


async def test_ctrl_c_stops_the_run_and_leaves_the_second_time(cli, wait_until):
    async with cli.model(never) as model, cli.on_screen("--plain") as screen:
        await screen.type("Think\n")
        await wait_until(lambda: model.count == 1)
        await screen.type(CTRL_C)
        await screen.wait_for("stopped")
        await trio.sleep(0.2)
        await screen.type(CTRL_C)
        await screen.wait_for("Press Ctrl-C again to exit.")
        await screen.type(CTRL_C)
        assert await screen.end() == 0
        assert screen.current_modes == screen.modes


async def test_ctrl_c_cancels_a_command(cli):
    """A command and a shell line are cancelled, and the next input is carried out."""
    requested = trio.Event()

    async def hang(*_: object) -> None:
        requested.set()
        await trio.sleep_forever()

    async with cli.model(hang, say("One.")) as server, cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type("/models test\n")
        await requested.wait()
        # Only hilum gets this signal; Ctrl-C would also end the child process directly.
        screen.process.send_signal(signal.SIGINT)
        await screen.wait_for("Stopped: /models test")
        started = cli.workspace / "started"
        await screen.type("!touch started; sleep 100\n")
        await screen.wait_until(started.exists, "the shell line")
        await screen.type(CTRL_C)
        await screen.wait_for("Stopping")
        await screen.type("Hello\n")
        await screen.wait_for("One.")
        assert server.count == 2
        assert b"Hello" in server.requests[-1].body
        await leave(screen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_signals_leave_at_a_run_and_at_a_question(cli, asks, number):
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with cli.model(write), cli.on_screen("--plain") as screen:
        await screen.type("Write\n")
        await screen.wait_for("view: the whole call")
        screen.process.send_signal(number)
        assert await screen.end() == 128 + number
        assert "To continue: hilum --resume" in screen.text


@pytest.mark.parametrize("options", [("--plain",), ()], ids=["plain", "redrawn"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_the_editor_ends_with_hilum(cli, asks, gone, wait_until, number, options):
    editor = cli.folder / "editor"
    editor.write_text('#!/bin/sh\necho $$ > "$0.pid"\necho EDITOR-RUNS\nexec sleep 600\n')
    editor.chmod(0o755)
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with (
        cli.model(write),
        cli.on_screen(*options, VISUAL=str(editor)) as screen,
    ):
        await screen.wait_for(READY)
        if options:
            await screen.type("Write\n")
            await reply(screen, CHOICES, "edit")
        else:
            await screen.type("draft" + CTRL_G)
        await screen.wait_for("EDITOR-RUNS")
        screen.process.send_signal(number)
        assert await screen.end() == 128 + number
        pid = int((cli.folder / "editor.pid").read_text())
        await wait_until(lambda: gone(pid))


async def test_a_command_of_the_program_ends_with_hilum(cli, gone, wait_until, plugin):
    """Even if hilum is killed: its warden ends the child process."""
    options = plugin(
        "import os, pathlib, sys, time\n"
        "if '-c' in sys.orig_argv:\n"
        f"    pathlib.Path({str(cli.folder)!r}, 'child.pid').write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    async with cli.model(say("One.")), cli.on_screen("--plain") as screen:
        await screen.wait_for(READY)
        await screen.type(f"/plugins --plugin {options[1]}\n")
        file = cli.folder / "child.pid"
        await screen.wait_until(lambda: file.exists() and file.read_text(), "the command")
        child = int(file.read_text())
        assert not gone(child)
        screen.process.send_signal(signal.SIGKILL)
        assert await screen.process.wait() == -signal.SIGKILL
        await wait_until(lambda: gone(child))


async def test_the_terminal_is_closed(cli, wait_until):
    """The program ends when its terminal has gone, without a signal, too."""
    async with cli.model(never) as model, cli.on_terminal("--plain") as terminal:
        await terminal.see(READY)
        terminal.type("Think\n")
        await wait_until(lambda: model.count == 1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, terminal.fd)
        os.close(nothing)
        with trio.fail_after(15):
            code = await terminal.process.wait()
        assert code in (0, 128 + signal.SIGHUP, -signal.SIGHUP)


SECRET = """
import hilum_terminal.chat as chat

async def remember(self, text):
    typed = await self.ask("Your key", secret=True)
    self.say(f"length {len(typed)}" if typed is not None else "no key")

chat.ChatCommands.remember = remember
"""


async def test_a_secret_is_not_shown(cli, plugin):
    async with (
        cli.model(say("One.")) as server,
        cli.on_screen("--plain", *plugin(SECRET)) as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("#key\n")
        await screen.wait_for("Your key (not shown)")
        assert not screen.current_modes[3] & termios.ECHO
        await screen.type("early-sk-1\n")
        await screen.wait_for("hilum discarded that line")
        await trio.sleep(READ_QUESTION)
        await screen.type("sk-12345\n")
        await screen.wait_for("length 8")
        assert screen.current_modes == screen.modes
        await screen.type("visible\n")
        await screen.wait_for("One.")
        assert "visible" in screen.text
        assert b"sk-1" not in screen.raw
        assert "sk-1" not in str(server.requests[0].body)
        await leave(screen)


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
async def test_a_secret_that_is_not_given(cli, plugin, key):
    async with cli.model(say("One.")), cli.on_screen("--plain", *plugin(SECRET)) as screen:
        await screen.wait_for(READY)
        await screen.type("#key\n")
        await screen.wait_for("Your key (not shown)")
        if key == CTRL_C:
            # Ctrl-Z and Ctrl-\ would leave the shell without echo.
            await screen.type("\x1a\x1c")
        await screen.type(key)
        await screen.wait_for("no key")
        assert screen.current_modes == screen.modes
        await screen.type("#key\n")
        await screen.wait_until(lambda: screen.text.count("Your key") == 2, "asked again")
        screen.process.send_signal(signal.SIGTERM)
        assert await screen.end() == 128 + signal.SIGTERM
        assert screen.current_modes == screen.modes


async def test_a_stopped_terminal_does_not_stop_the_program(cli, asks, wait_until):
    """After Ctrl-S, the run goes on, and the order of the lines is kept."""
    command = asks("run_terminal_cmd", command="sleep 0.5; seq 1 5; touch made")
    async with (
        cli.model(command, say("Done.")) as model,
        cli.on_screen("--plain", "--approve", "auto") as screen,
    ):
        await screen.wait_for(READY)
        await screen.type("Count\n")
        await wait_until(lambda: model.count == 1)
        await screen.type(CTRL_S)
        await trio.sleep(0.1)
        begin = time.monotonic()
        while not (cli.workspace / "made").exists():
            await trio.sleep(0.05)
            assert time.monotonic() < begin + 15
        await trio.sleep(0.5)
        assert "Done." not in screen.text
        await screen.type(CTRL_Q)
        await screen.wait_for("2 turns")
        text = screen.text
        assert text.index("✓ $ sleep") < text.index("Done.") < text.index("2 turns")
        await screen.type(CTRL_S)
        await trio.sleep(0.1)
        await screen.type(CTRL_D)
        with trio.fail_after(10):
            await screen.process.wait()


async def test_a_terminal_that_does_not_read(cli):
    """A megabyte of output waits in the program, which still handles signals."""
    text = "\n\n".join(f"Paragraph {number} " + "word " * 60 for number in range(1000))
    async with cli.model(say(text)), cli.on_terminal("--plain", "Write much") as terminal:
        await terminal.see("Paragraph 1 ")
        await trio.sleep(2)
        terminal.process.send_signal(signal.SIGTERM)
        with trio.fail_after(15):
            assert await terminal.process.wait() == 128 + signal.SIGTERM
