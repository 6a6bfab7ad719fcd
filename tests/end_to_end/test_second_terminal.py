"""A session in two terminals: both show everything, the first answer wins, and one takes over."""

import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
import trio
from hilum.messages import AssistantMessage, Text

pytestmark = pytest.mark.slow(cases=5, of="file")

READY = "ready · "
JOINED = "open in 2 terminals"
LEFT = "Continue the conversation in this terminal?"
SHIFT_TAB = "\x1b[Z"
ESC = "\x1b"


def say(text: str) -> AssistantMessage:
    """An answer that ends the run."""
    return AssistantMessage((Text(text, "model"),), stop="end")


@pytest.fixture(autouse=True)
def project(cli):
    """A small Git project, and a key for the scripted model."""
    (cli.workspace / "a.py").write_text("x = 1\n")
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=cli.workspace, check=True)
    cli.env["OPENAI_API_KEY"] = "k"


@asynccontextmanager
async def two_terminals(cli):
    """Start a conversation with one answered prompt, and join it from a second terminal."""
    async with cli.on_screen() as first:
        await first.wait_for(READY)
        await first.type("Hello\r")
        await first.wait_for("1 turn")
        async with cli.on_screen("-c") as second:
            await second.wait_for(JOINED)
            await first.wait_for(JOINED)
            yield first, second


async def press(screen, key: str) -> None:
    """Press a key that answers a question, after the time in which no key answers it."""
    await trio.sleep(0.4)
    await screen.type(key)


async def take_over(screen) -> None:
    """Continue the conversation in the terminal that is asked whether to do so."""
    await screen.wait_for(LEFT)
    for _ in range(5):
        await press(screen, "y")
        # On a busy machine, the key may come in the time in which no key answers a question.
        with trio.move_on_after(3):
            await screen.wait_gone(LEFT)
            return
    raise AssertionError(screen.text)


async def test_both_terminals_show_the_same_and_can_prompt(cli):
    """The second one shows the earlier conversation, and what is sent in either one."""
    async with (
        cli.model(say("Good day."), say("From two."), say("From one.")),
        two_terminals(cli) as (first, second),
    ):
        await second.wait_for("Good day.")
        await second.wait_for("ready · joined")
        assert "· joined" not in first.text
        await second.type("Second prompt\r")
        await first.wait_for("❯ Second prompt")
        await first.wait_for("From two.")
        await second.wait_for("From two.")
        await first.type("Third prompt\r")
        await second.wait_for("❯ Third prompt")
        await second.wait_for("From one.")
        await second.type("/undo\r")
        await second.wait_for("works only in the terminal that has this conversation open")
        # A refused shell line returns as a shell line: Enter does not send it to the agent.
        await second.type("!ls\r")
        await second.wait_for("A shell line (!) works only")
        await second.wait_for("❯ !ls")
        assert "❯  !ls" not in second.text


async def test_the_first_answer_to_an_approval_wins(cli, asks):
    """The call runs once, and the other terminal says who decided."""
    write = asks("write_file", path="b.py", content="y = 2\n")
    async with (
        cli.model(say("Good day."), write, say("Done.")),
        two_terminals(cli) as (first, second),
    ):
        await first.type("Write b.py\r")
        await first.wait_for("[y] yes, once")
        await second.wait_for("[y] yes, once")
        await press(second, "y")
        await second.wait_for("Done.")
        await first.wait_for("Allowed in another terminal: write b.py")
        await first.wait_for("Done.")
        # One notice, which names the call.
        assert "No longer waiting" not in first.text
        assert "in another terminal" not in second.text
        # The second terminal reads the changes from the disk.
        await second.type("/diff --stat\r")
        await second.wait_for("b.py (+1")
    assert (cli.workspace / "b.py").read_text() == "y = 2\n"


async def test_the_second_terminal_stops_the_run_of_the_first(cli):
    """A text returns to the draft of the terminal in which it was typed."""

    async def never():
        await trio.sleep_forever()

    async with cli.model(say("Good day."), never), two_terminals(cli) as (first, second):
        await first.type("Think long\r")
        await second.wait_for("esc stops")
        await first.type("steer one\r")
        await second.wait_for("steer one")
        await second.type(ESC)
        await first.wait_for("stopped")
        await second.wait_for("stopped")
        await first.wait_gone("esc stops")
        await first.wait_for("  steer one")
        assert not any("steer one" in row for row in second.rows)


async def test_leaving_the_second_terminal_stops_nothing(cli):
    """The work goes on where the session is open."""
    release = trio.Event()

    async def later():
        await release.wait()
        return say("At last.")

    async with cli.model(say("Good day."), later), two_terminals(cli) as (first, second):
        await first.type("Think long\r")
        await second.wait_for("esc stops")
        await second.type("/quit\r")
        assert await second.end() == 0
        await first.wait_for("The other terminal has left this conversation.")
        release.set()
        await first.wait_for("At last.")


@pytest.mark.parametrize("way", ["quit", "kill"])
async def test_the_second_terminal_takes_over(cli, way):
    """It keeps its draft, and the conversation continues there."""
    async with (
        cli.model(say("Good day."), say("Still here.")),
        two_terminals(cli) as (first, second),
    ):
        await second.type("my draft")
        await second.wait_for("my draft")
        if way == "quit":
            await first.type("/quit\r")
        else:
            os.kill(first.process.pid, signal.SIGKILL)
        # The question takes no keys while there is a draft.
        await second.wait_for("A command has a question")
        assert "my draft" in second.text
        await second.type(SHIFT_TAB)
        await take_over(second)
        await second.wait_for(READY)
        await second.wait_for("my draft")
        await trio.sleep(0.2)
        await second.type("\r")
        await second.wait_for("Still here.")
        assert second.text.count("Good day.") == 1


async def test_a_suspended_first_terminal(cli):
    """The second terminal says so, stays usable, keeps the text, and continues later."""
    async with cli.model(say("Good day."), say("Awake.")), two_terminals(cli) as (first, second):
        os.kill(first.process.pid, signal.SIGSTOP)
        await second.wait_for("does not respond")
        await second.type("Anybody?\r")
        await second.wait_for("Nothing was sent.")
        os.kill(first.process.pid, signal.SIGCONT)
        await second.wait_for("responds again")
        await second.type("\r")
        await second.wait_for("Awake.")
        await first.wait_for("Awake.")


async def test_a_question_and_a_plan_are_decided_in_the_second_terminal(cli, asks):
    """The answers reach the agent of the first one, and so does the mode."""
    question = asks("ask_question", question="Tabs or spaces?", options=["tabs", "spaces"])
    todo = {"id": "a", "content": "Do a", "status": "pending"}
    plan = asks("todo_write", todos=[todo])
    async with (
        cli.model(
            say("Good day."), question, say("Spaces then."), plan, say("My plan."), say("OK")
        ),
        two_terminals(cli) as (first, second),
    ):
        await first.type("Ask me\r")
        await first.wait_for("Tabs or spaces?")
        await second.wait_for("[o] own answer")
        await press(second, "\x1b[B")
        await press(second, "\r")
        await first.wait_for("Spaces then.")
        await second.wait_for("Spaces then.")
        await second.type("/mode plan ")
        await press(second, "\r")
        await first.wait_for("ready · plan")
        await first.type("How?\r")
        await second.wait_for("My plan.")
        await second.wait_for("[y]")
        await press(second, "y")
        await first.wait_for("OK")
        await second.wait_for("OK")


async def test_joining_while_the_agent_works(cli, asks):
    """What has streamed so far is shown, an open approval can be answered, and the work goes on."""
    write = asks("write_file", path="b.py", content="y = 2\n", text="I will write b.py.")
    async with cli.model(write, say("Done.")), cli.on_screen() as first:
        await first.wait_for(READY)
        await first.type("Write b.py\r")
        await first.wait_for("[y] yes, once")
        async with cli.on_screen("-c") as second:
            await second.wait_for("I will write b.py.")
            await second.wait_for("[y] yes, once")
            assert "cut off" not in second.text
            await press(second, "y")
            await second.wait_for("Done.")
            await first.wait_for("Done.")


async def test_resume_joins_from_another_conversation(cli):
    """``/resume`` in a conversation of its own joins the one of the other terminal."""
    async with cli.model(say("Good day."), say("Other.")), cli.on_screen() as first:
        await first.wait_for(READY)
        await first.type("Hello\r")
        await first.wait_for("1 turn")
        async with cli.on_screen() as second:
            await second.wait_for(READY)
            await second.type("/resume\r")
            await second.wait_for("Continue a conversation")
            await press(second, "\r")
            await second.wait_for(JOINED)
            await second.wait_for("Good day.")
            await second.type("/clear\r")
            await second.wait_for(READY)
            await first.wait_for("The other terminal has left this conversation.")


async def test_three_terminals(cli):
    """When the first one ends, the second takes over, and the third joins it."""
    async with (
        cli.model(say("Good day."), say("From three.")),
        two_terminals(cli) as (first, second),
        cli.on_screen("-c") as third,
    ):
        await third.wait_for("open in 3 terminals")
        await second.wait_for("open in 3 terminals")
        os.kill(first.process.pid, signal.SIGKILL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_over, second)
            nursery.start_soon(take_over, third)
        for screen in (second, third):
            await screen.wait_until(
                lambda: "open in 2 terminals" in screen.text.rpartition("has left.")[2],  # noqa: B023
                "both terminals show the conversation again",
            )
            await screen.wait_for(READY)
        # A prompt that is sent before the third terminal has joined the second one returns to its
        # input.
        await second.wait_until(lambda: second.text.count(JOINED) == 2, "two terminals again")
        await third.wait_until(lambda: third.text.count(JOINED) == 2, "two terminals again")
        await third.type("And now?\r")
        await third.wait_for("From three.")
        await second.wait_for("From three.")


async def test_a_run_of_hilum_run_is_joined_and_stopped(cli, wait_until):
    """Its user sees the second terminal's stop as that of the run."""

    async def never(request):
        await trio.sleep_forever()

    async with cli.model(never) as server, cli.started("run", "Think long") as process:
        await wait_until(lambda: server.count)
        async with cli.on_screen("-c") as screen:
            await screen.wait_for("❯ Think long")
            await screen.wait_for("esc stops")
            await screen.type(ESC)
            await screen.wait_for("stopped")
            assert await process.wait() == 130


async def test_the_second_terminal_in_plain_lines(cli):
    """Everything arrives as lines, and it takes over as well."""
    async with cli.model(say("Good day."), say("From plain.")), cli.on_screen() as first:
        await first.wait_for(READY)
        await first.type("Hello\r")
        await first.wait_for("1 turn")
        async with cli.on_terminal("-c", "--plain") as second:
            await second.see("Good day.")
            await second.see(JOINED)
            second.type("A line\n")
            await second.see("From plain.")
            await first.wait_for("From plain.")
            os.kill(first.process.pid, signal.SIGKILL)
            await second.see(LEFT)


async def test_a_command_of_the_agent_cannot_join(cli, asks):
    """Neither in the sandbox, which hides the socket, nor without one."""
    hello = '{"type":"Hello","protocol":1}'
    # The name of a socket alone is not too long for the system.
    (cli.workspace / "join.py").write_text(
        "import os, socket, struct\n"
        # The guard refuses code that names the path.
        f"folder = bytes.fromhex({bytes(cli.folder / 'data' / 'sockets').hex()!r}).decode()\n"
        "found = os.listdir(folder) if os.path.isdir(folder) else []\n"
        "print('sockets:', len(found))\n"
        "for name in found:\n"
        "    os.chdir(folder)\n"
        f"    data = {hello!r}.encode()\n"
        "    try:\n"
        "        with socket.socket(socket.AF_UNIX) as peer:\n"
        "            peer.settimeout(20)\n"
        "            peer.connect(name)\n"
        "            peer.sendall(struct.pack('>I', len(data)) + data)\n"
        "            print('joined' if peer.recv(4) else 'refused')\n"
        "    except OSError:\n"
        "        print('refused')\n"
    )
    command = asks("run_terminal_cmd", command=f"{sys.executable} join.py")
    for sandbox in ("auto", "off"):
        settings = ("--set", f"guard.sandbox={sandbox}", "--set", "guard.unsandboxed=run")
        async with (
            cli.model(command, say("Done.")) as server,
            cli.on_screen("--approve", "auto", *settings) as screen,
        ):
            await screen.wait_for("agent, auto")
            await screen.type("Join\r")
            await screen.wait_for("Done.")
            output = str(server.requests[-1].body).rpartition("tool_call_id")[2]
            assert "sockets: 0" in output or "refused" in output
            assert "joined" not in output
