"""The full-screen view in a real terminal: the scrollback is as before, and the terminal is sane."""

import os
import shlex
import shutil
import signal

import pytest
import trio
from hilum.messages import AssistantMessage, Text

READY = "ready · agent"
PAGE_DOWN = "\x1b[6~"
END = "\x1b[F"
ALT_O = "\x1bo"


def say(text: str) -> AssistantMessage:
    """An answer that ends the run."""
    return AssistantMessage((Text(text, "model"),), stop="end")


@pytest.fixture(autouse=True)
def key(cli):
    """A key for the scripted model."""
    cli.env["OPENAI_API_KEY"] = "k"


@pytest.fixture
def long_write(asks):
    """A call whose diff is longer than the window."""
    content = "".join(f"line {number}\n" for number in range(200))
    return asks("write_file", path="long.txt", content=content)


async def ask(screen):
    """Start a run, and wait until its approval can be answered."""
    await screen.wait_for(READY)
    await screen.type("Write it\r")
    await screen.wait_for("[w] full screen")
    await trio.sleep(0.4)


async def test_a_call_in_full_screen_and_back(cli, long_write):
    """Scroll, search, return: the rows before and the question are as they were; y still works."""
    async with cli.model(long_write, say("Done.")), cli.on_screen() as screen:
        await ask(screen)
        before = screen.text
        await screen.type("w")
        await screen.wait_until(lambda: screen.is_alternate, "the alternate screen")
        await screen.wait_for("q: back")
        assert "❯ Write it" not in "\n".join(screen.rows)
        await screen.type(PAGE_DOWN)
        await screen.wait_for("line 60")
        await screen.type("/line 150")
        await screen.wait_for("match 1 of 1")
        assert any(row.endswith("line 150") for row in screen.rows)
        await screen.type("\r")
        await screen.wait_for("n: next")
        # The window changes while the normal screen is hidden.
        screen.resize(80, 30)
        await screen.wait_until(lambda: "of 20" in screen.rows[29], "the size of the window")
        await screen.type("q")
        await screen.wait_until(lambda: not screen.is_alternate, "the normal screen")
        await screen.wait_for("[y] yes, once")
        assert "line 150" not in screen.text
        assert screen.text.count("❯ Write it") == before.count("❯ Write it") == 1
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_for("Done.")
        assert (cli.workspace / "long.txt").exists()


async def test_a_call_is_approved_in_the_full_screen_view(cli, long_write):
    """The question has its action in plain words, and the view says why hilum asks."""
    async with cli.model(long_write, say("Done.")), cli.on_screen() as screen:
        await ask(screen)
        assert "● write long.txt" in screen.text
        await screen.type("w")
        await screen.wait_for("y: yes, once · q: back")
        assert "Why: Calls that change something need approval" in screen.text
        await trio.sleep(0.4)
        await screen.type("y")
        await screen.wait_until(lambda: not screen.is_alternate, "the normal screen")
        await screen.wait_for("Done.")
        assert "No longer waiting" not in screen.text
    assert (cli.workspace / "long.txt").exists()


async def test_what_arrives_meanwhile_is_written_afterwards(cli, asks):
    release = trio.Event()

    async def later():
        await release.wait()
        return say("The second answer.")

    read = asks("read_file", path="a.py")
    (cli.workspace / "a.py").write_text("x = 1\n" * 100)
    async with cli.model(read, later), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Read a.py\r")
        await screen.wait_for("✓ read a.py")
        await screen.type(ALT_O)
        await screen.wait_until(lambda: screen.is_alternate, "the alternate screen")
        await screen.wait_for("q: back")
        await screen.type(END)
        release.set()
        # Nothing tells when the answer has arrived while the view covers the conversation.
        await trio.sleep(0.5)
        assert "The second answer." not in screen.text
        await screen.type("\x1b")
        await screen.wait_for("The second answer.")
        assert screen.text.count("✓ read a.py") == 1
        assert not screen.is_alternate


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_leaves_a_sane_terminal(cli, long_write, number):
    async with cli.model(long_write), cli.on_screen() as screen:
        await ask(screen)
        await screen.type("w")
        await screen.wait_for("q: back")
        screen.process.send_signal(number)
        assert await screen.end() == 128 + number
        assert not screen.is_alternate
        assert screen.current_modes == screen.modes
        assert "❯ Write it" in screen.text
        assert "To continue: hilum --resume" in screen.text
        assert "line 20" not in screen.text


class Tmux:
    """A tmux server of its own, in which a program runs in a window of 100 × 30."""

    def __init__(self, folder):
        self._command = ["tmux", "-L", "hilum-full", "-f", os.devnull]
        self._env = dict(os.environ, TMUX_TMPDIR=str(folder), LC_ALL="C.UTF-8")
        self._env.pop("TMUX", None)

    async def __call__(self, *arguments):
        done = await trio.run_process(
            [*self._command, *arguments], env=self._env, capture_stdout=True
        )
        return done.stdout.decode()

    async def content(self):
        """The scrollback and the screen."""
        return await self("capture-pane", "-p", "-S", "-")

    async def is_alternate(self):
        return (await self("display", "-p", "#{alternate_on}")).strip() == "1"

    async def find_program(self):
        """The process id of the program that the shell in the window runs."""
        shell = (await self("display", "-p", "#{pane_pid}")).strip()
        children = await trio.Path(f"/proc/{shell}/task/{shell}/children").read_text()
        return int(children.split()[0])

    async def wait_for(self, text):
        """Wait until a text is there; tmux reports no changes, so it is asked again."""
        content = ""
        with trio.move_on_after(20):
            while text not in content:
                await trio.sleep(0.05)
                content = await self.content()
        assert text in content


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is missing")
async def test_the_scrollback_of_a_real_terminal_is_not_touched(cli, long_write, tmp_path):
    """The window gets another size meanwhile, and the end of the program leaves the view, too."""
    tmux = Tmux(tmp_path)
    before = "".join(f"before {number}\\n" for number in range(60))
    async with cli.model(long_write):
        given = [f"{name}={value}" for name, value in cli.env.items()]
        start = ["env", "-i", *given, "TERM=xterm-256color", *cli.argv()]
        command = f"cd {cli.workspace}; printf '{before}'; {shlex.join(start)}; echo exit=$?; cat"
        await tmux(*"set -g status off ; new-session -d -x 100 -y 30 sh -c".split(), command)
        try:
            await tmux.wait_for(READY)
            await tmux("send-keys", "Write it", "Enter")
            await tmux.wait_for("[w] full screen")
            await trio.sleep(0.4)
            await tmux("send-keys", "w")
            await tmux.wait_for("q: back")
            assert await tmux.is_alternate()
            await tmux("send-keys", "End")
            await tmux.wait_for("line 199")
            await tmux("resize-window", "-x", "80", "-y", "20")
            # The path of the folder may need a second row.
            await tmux.wait_for("179-196 of 20")
            await tmux("send-keys", "q")
            await tmux.wait_for("[y] yes")
            assert not await tmux.is_alternate()
            content = await tmux.content()
            assert [f"before {number}" for number in range(60)] == [
                line for line in content.splitlines() if line.startswith("before ")
            ]
            assert content.count("❯ Write it") == 1
            assert content.count("● write long.txt") == 1
            await trio.sleep(0.4)
            await tmux("send-keys", "w")
            await tmux.wait_for("q: back")
            os.kill(await tmux.find_program(), signal.SIGTERM)
            await tmux.wait_for("exit=143")
            assert not await tmux.is_alternate()
            assert (await tmux.content()).count("❯ Write it") == 1
        finally:
            with trio.CancelScope(shield=True):
                await tmux("kill-server")
