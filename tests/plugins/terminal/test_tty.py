"""The terminal as a device, in real pseudo-terminals: modes, speed, hand-overs, and every way out."""

import errno
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pyte
import pytest
import trio
import trio.testing
from hilum.errors import UsageError

if sys.platform == "win32":
    pytest.skip("pseudo-terminals need POSIX", allow_module_level=True)

import termios

from hilum_terminal import tty as tty_module
from hilum_terminal.tty import Tty

MODES_OFF = b"\x1b[m\x1b[?7h\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?2026l"
# Undoes what an editor that crashed leaves: application keys, insert mode, mouse reports, the
# alternate screen and a scroll region.
AFTER_LOAN = (
    b"\x1b[?1l\x1b>\x1b[4l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?1047l\x1b7\x1b[r\x1b8"
)
# Becomes the leader of a session on the terminal that is its standard input.
CONTROL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
PROGRAM = """
import os, signal, sys
import trio
from hilum_terminal.screen import Screen
from hilum_terminal.tty import Tty

screen = Screen()

def draw(tty):
    tty.write(screen.frame(["final"], ["live", "> "], tty.size(), (1, 2)))

async def main(ending):
    with trio.CancelScope() as scope:
        await use(ending, scope)

async def use(ending, scope):
    async with Tty(on_leave=screen.leave) as tty:
        draw(tty)
        await tty.flush()
        if ending == "exception":
            raise ZeroDivisionError
        if ending == "exit":
            sys.exit(3)
        if ending == "cancelled":
            scope.cancel()
            await trio.sleep_forever()
        if ending.startswith("SIG"):
            signal.raise_signal(getattr(signal, ending))

async def only_enter():
    tty = Tty(on_leave=screen.leave)
    await tty.__aenter__()
    draw(tty)
    await tty.flush()

ending = sys.argv[1]
if ending == "never left":
    trio.run(only_enter)
else:
    trio.run(main, ending)
"""


class Pseudo:
    """A pseudo-terminal; ``ours`` is the end of the terminal program, ``theirs`` the device."""

    def __init__(self):
        self.ours, self.theirs = os.openpty()
        os.set_blocking(self.ours, False)
        self.resize(80, 24)
        self.output = b""
        self.before = self.modes()

    def resize(self, columns, lines):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.theirs)

    def open(self):
        path = os.ttyname(self.theirs)
        return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    def collect(self):
        """Read all output that is there; return whether the device is still open somewhere."""
        while True:
            try:
                piece = os.read(self.ours, 65536)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return False
            self.output += piece

    async def until(self, condition):
        """Read output until a condition holds."""
        with trio.fail_after(60):
            while self.collect() and not condition():
                await trio.lowlevel.wait_readable(self.ours)

    def display(self):
        screen = pyte.Screen(80, 24)
        pyte.ByteStream(screen).feed(self.output)
        return [line.rstrip() for line in screen.display]

    def close_ours(self):
        if self.ours >= 0:
            os.close(self.ours)
            self.ours = -1

    def close(self):
        self.close_ours()
        os.close(self.theirs)


@pytest.fixture
def pseudo():
    pseudo = Pseudo()
    yield pseudo
    pseudo.close()


@pytest.fixture
def here(pseudo, monkeypatch):
    """The pseudo-terminal as the one of this process."""
    monkeypatch.setattr(tty_module, "open_terminal", pseudo.open)
    return pseudo


@asynccontextmanager
async def running(pseudo, program, *arguments):
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", CONTROL + program, *arguments],
        stdin=pseudo.theirs,
        stdout=pseudo.theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stderr.aclose()


async def read_all(stream):
    return b"".join([piece async for piece in stream])


ENDINGS = {
    "normal": 0,
    "exception": 1,
    "exit": 3,
    "cancelled": 0,
    "never left": 0,
    "SIGTERM": -signal.SIGTERM,
    "SIGHUP": -signal.SIGHUP,
    "SIGQUIT": -signal.SIGQUIT,
    "SIGABRT": -signal.SIGABRT,
    "SIGALRM": -signal.SIGALRM,
    "SIGUSR1": -signal.SIGUSR1,
    "SIGUSR2": -signal.SIGUSR2,
    "SIGXCPU": -signal.SIGXCPU,
}


async def test_every_way_out_leaves_the_terminal_as_it_was_found():
    wrong = []

    async def check(ending, code):
        pseudo = Pseudo()
        async with running(pseudo, PROGRAM, ending) as process:
            with trio.fail_after(60):
                while process.poll() is None:
                    pseudo.collect()
                    await trio.sleep(0.01)
                await process.wait()
        pseudo.collect()
        found = {
            "code": process.returncode == code,
            "modes": pseudo.modes() == pseudo.before,
            "sequences": pseudo.output.endswith(MODES_OFF),
            "paste was on": b"\x1b[?2004h" in pseudo.output,
            "display": pseudo.display()[:2] == ["final", ""],
        }
        pseudo.close()
        wrong.extend((ending, name) for name, good in found.items() if not good)

    async with trio.open_nursery() as nursery:
        for ending, code in ENDINGS.items():
            nursery.start_soon(check, ending, code)
    assert wrong == []


HANGUP = """
import signal, sys
import trio
from hilum_terminal.tty import Tty

async def main():
    async with Tty() as tty:
        tty.write(b"ready")
        await tty.flush()
        first = await tty.read()
        assert tty.gone
        second = await tty.read()
        tty.write(b"x" * 100_000)
        await tty.flush()
        async with tty.lent():
            pass
        await tty.suspend()
        print(first, second, tty.gone, tty.size(), file=sys.stderr)

if sys.argv[1] == "ignore":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
trio.run(main)
"""


async def test_a_terminal_that_is_gone_ends_the_program_quietly(pseudo):
    async with running(pseudo, HANGUP, "default") as process:
        await pseudo.until(lambda: b"ready" in pseudo.output)
        pseudo.close_ours()
        with trio.fail_after(60):
            assert await read_all(process.stderr) == b""
            assert await process.wait() == -signal.SIGHUP


async def test_a_terminal_that_is_gone_reads_as_its_end(pseudo):
    async with running(pseudo, HANGUP, "ignore") as process:
        await pseudo.until(lambda: b"ready" in pseudo.output)
        pseudo.close_ours()
        with trio.fail_after(60):
            assert await read_all(process.stderr) == b"b'' b'' True (80, 24)\n"
            assert await process.wait() == 0


SHELL = """
import json, os, signal, sys

def wait():
    status = os.waitpid(child, os.WUNTRACED)[1]
    if os.WIFSTOPPED(status):
        return f"stopped by {signal.Signals(os.WSTOPSIG(status)).name}"
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit {os.WEXITSTATUS(status)}"

def set_modes(changed):
    modes = list(before)
    if changed:
        modes[3] &= ~termios.ECHOCTL
    termios.tcsetattr(0, termios.TCSANOW, modes)

def describe_modes():
    modes = termios.tcgetattr(0)
    if modes == before:
        return "as before"
    modes[3] |= termios.ECHOCTL
    return "as changed" if modes == before else "wrong"

def resume(group):
    os.tcsetpgrp(0, group)
    os.killpg(child, signal.SIGCONT)

signal.signal(signal.SIGTTOU, signal.SIG_IGN)
us = os.getpgrp()
before = termios.tcgetattr(0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
results = []
case = sys.argv[2]
if case == "killed":
    # The child has sent its frame, and waits.
    signal.sigwait([signal.SIGUSR1])
    os.tcsetpgrp(0, us)
    os.kill(child, signal.SIGTERM)
    results += [wait(), describe_modes()]
else:
    results += [wait(), describe_modes()]
    os.tcsetpgrp(0, us)
    set_modes(True)
    if case == "background":
        resume(us)
        results += [wait(), describe_modes()]
        set_modes(False)
    resume(child)
    results += [wait(), describe_modes()]
os.tcsetpgrp(0, us)
print(json.dumps(results), file=sys.stderr)
"""
SUSPENDED = """
import os, signal, sys, termios, trio
from hilum_terminal.screen import Screen
from hilum_terminal.tty import Tty

screen = Screen()

async def main():
    returned = []
    async with Tty(on_leave=screen.leave, on_return=lambda: returned.append(1)) as tty:
        tty.write(screen.frame(["final"], ["live"], tty.size(), None))
        await tty.flush()
        if sys.argv[1] == "killed":
            os.kill(os.getppid(), signal.SIGUSR1)
            await trio.sleep_forever()
        await tty.suspend()
        # This SIGCONT must not draw everything again.
        assert tty.resume() is False
        assert returned == [1]
        assert not termios.tcgetattr(0)[3] & termios.ECHO
        tty.write(screen.frame(["more"], ["live"], tty.size(), None))

trio.run(main)
"""


async def test_the_shell_has_the_terminal_while_the_program_is_stopped_or_in_the_background():
    stopped = ["stopped by SIGTSTP", "as before"]
    cases = {
        # The user changed the modes in the shell.
        "foreground": [*stopped, "exit 0", "as changed"],
        # It stops again before it changes the modes, and never takes those of the shell's own
        # prompt for the user's.
        "background": [*stopped, "stopped by SIGTTOU", "as changed", "exit 0", "as before"],
        # Restoring the terminal from the background does not stop it.
        "killed": ["killed by SIGTERM", "as before"],
    }
    found = {}
    displays = {}

    async def check(case):
        pseudo = Pseudo()
        async with running(pseudo, SHELL, SUSPENDED, case) as process:
            found[case] = json.loads(await read_all(process.stderr))
            await process.wait()
        pseudo.collect()
        # On a busy machine, the system passes on the last bytes after the end of the program.
        with trio.move_on_after(5):
            while "final" not in pseudo.display():
                await trio.sleep(0.01)
                pseudo.collect()
        displays[case] = pseudo.display()[:3]
        pseudo.close()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for case in cases:
                nursery.start_soon(check, case)
    assert found == cases
    assert displays["foreground"] == displays["background"] == ["final", "more", ""]
    assert displays["killed"] == ["final", "", ""]


async def test_suspending_without_job_control_only_redraws(here, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "kill", lambda *arguments: calls.append(arguments))
    returned = []
    async with Tty(on_return=lambda: returned.append(1)) as tty:
        before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        try:
            await tty.suspend()
        finally:
            signal.signal(signal.SIGTSTP, before)
        assert calls == []
        await tty.suspend()
        assert calls == [(0, signal.SIGTSTP)]
        assert returned == [1]


async def test_keys_arrive_at_once_and_unchanged(here):
    plain = here.modes()
    plain[1] = 0
    termios.tcsetattr(here.theirs, termios.TCSANOW, plain)
    async with Tty() as tty:
        modes = here.modes()
        assert modes[1] & termios.OPOST
        assert modes[1] & termios.ONLCR
        typed = b"\x03\x04\x1a\x13\x11\x16\r\n\x7f\x1b[A" + "é你".encode()
        os.write(here.ours, typed)
        with trio.fail_after(60):
            received = b""
            while len(received) < len(typed):
                received += await tty.read()
        assert received == typed
        here.collect()
        assert here.output == b"", "modes are sent with the first frame"
        await tty.flush()
        here.collect()
        assert here.output == b"\x1b[?2004h\x1b[?1004h"


async def test_focus_reports_are_off_on_request(here):
    async with Tty(focus_reports=False) as tty:
        await tty.flush()
        here.collect()
        assert here.output == b"\x1b[?2004h"


async def test_a_terminal_that_does_not_read_holds_up_nothing_but_the_flush(here):
    data = bytes(range(33, 127)) * 4000
    flushed = trio.Event()
    async with Tty(focus_reports=False) as tty:

        async def flush():
            await tty.flush()
            flushed.set()

        async with trio.open_nursery() as nursery:
            tty.write(data)
            nursery.start_soon(flush)
            # Other tasks run, and the next frame can be composed.
            await trio.testing.wait_all_tasks_blocked()
            assert not flushed.is_set()
            os.write(here.ours, b"key")
            assert await tty.read() == b"key"
            tty.write(b"next")
            await here.until(lambda: here.output.endswith(b"next"))
        assert here.output == b"\x1b[?2004h" + data + b"next"


STUCK = """
import os, sys
import trio
from hilum_terminal.tty import Tty

async def main():
    async with Tty() as tty:
        tty.write(b"x" * 1_000_000)
        with trio.move_on_after(0.05) as scope:
            await tty.flush()
        print(scope.cancelled_caught, os.get_blocking(0), os.get_blocking(1), file=sys.stderr)

trio.run(main)
"""


async def test_only_the_descriptor_of_the_terminal_is_non_blocking(pseudo):
    """The flag on standard output would also apply to the shell and to child processes."""
    async with running(pseudo, STUCK) as process:
        with trio.fail_after(60):
            assert await read_all(process.stderr) == b"True True True\n"
            assert await process.wait() == 0
    assert pseudo.modes() == pseudo.before


async def test_the_loop_runs_on_while_a_terminal_reads_slowly(here):
    """25 kB/s, the speed of a bad connection."""
    gaps = []
    async with Tty() as tty, trio.open_nursery() as nursery:

        async def measure():
            while True:
                start = time.perf_counter()
                await trio.sleep(0.001)
                gaps.append(time.perf_counter() - start)

        async def read_slowly():
            while True:
                await trio.lowlevel.wait_readable(here.ours)
                os.read(here.ours, 500)
                await trio.sleep(0.02)

        nursery.start_soon(measure)
        nursery.start_soon(read_slowly)
        tty.write(b"x" * 20_000)
        await tty.flush()
        nursery.cancel_scope.cancel()
    # A blocking write would take the whole 0.6 s. The median does not see a busy machine.
    assert len(gaps) > 50
    assert sorted(gaps)[len(gaps) // 2] < 0.05


async def test_a_cancelled_flush_is_completed_by_the_next(here):
    data = bytes(range(33, 127)) * 2000
    async with Tty(focus_reports=False) as tty:
        tty.write(data)
        with trio.move_on_after(0.01) as scope:
            await tty.flush()
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tty.flush)
            await here.until(lambda: len(here.output) == 8 + len(data))
        assert here.output == b"\x1b[?2004h" + data


async def test_a_cancellation_does_not_take_the_last_rows(here):
    """They are more than the system buffers, so that they need a terminal that reads meanwhile."""
    data = b"row" * 20_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.until, lambda: here.output.endswith(data + MODES_OFF))
        with trio.CancelScope() as scope:
            async with Tty() as tty:
                tty.write(data)
                scope.cancel()
                await trio.sleep_forever()
    assert here.modes() == here.before


async def test_a_failed_write_ends_the_reader_as_well(here, monkeypatch):
    def fail(descriptor, data):
        raise OSError(errno.EIO, "gone")

    received = []
    async with Tty() as tty, trio.open_nursery() as nursery:

        async def read():
            received.append(await tty.read())

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(os, "write", fail)
        await tty.flush()
        monkeypatch.undo()
        assert tty.gone
    assert received == [b""]


async def test_a_lent_terminal_belongs_to_the_other_program(here):
    events = []

    def leave():
        events.append("leave")
        return b"<leave>"

    async with Tty(on_leave=leave, on_return=lambda: events.append("return")) as tty:
        received = []

        async def read():
            received.append(await tty.read())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            tty.write(b"<frame>")
            async with tty.lent():
                assert tty.is_lent
                assert here.modes() == here.before
                here.collect()
                assert here.output.endswith(b"<frame><leave>" + MODES_OFF)
                here.output = b""
                os.write(here.ours, b"for the editor\n")
                tty.write(b"<next>")
                nursery.start_soon(tty.flush)
                await trio.testing.wait_all_tasks_blocked()
                assert received == []
                assert os.read(here.theirs, 100) == b"for the editor\n"
                here.collect()
                assert here.output == b"for the editor\r\n", "only the echo"
                here.output = b""
            assert events == ["leave", "return"]
            assert not here.modes()[3] & termios.ICANON
            os.write(here.ours, b"for us")
        assert received == [b"for us"]
        here.collect()
        assert here.output == AFTER_LOAN + b"\x1b[?2004h\x1b[?1004h<next>"


async def test_the_alternate_screen_is_left_with_the_terminal(here):
    """The other program gets the normal screen; afterwards, the alternate screen is back."""
    on, off = b"\x1b[?1049h", b"\x1b[?1049l"
    async with Tty(focus_reports=False) as tty:
        tty.enter_alternate()
        async with tty.lent():
            here.collect()
            assert here.output == b"\x1b[?2004h" + on + off + MODES_OFF
            here.output = b""
        await tty.flush()
        here.collect()
        assert here.output == AFTER_LOAN + b"\x1b[?2004h" + on
        here.output = b""
    here.collect()
    assert here.output == off + MODES_OFF


async def test_the_normal_screen_is_not_left_twice(here):
    """Outside the alternate screen, the sequence would move the cursor."""
    async with Tty(focus_reports=False) as tty:
        tty.leave_alternate()
        tty.enter_alternate()
        tty.leave_alternate()
    here.collect()
    assert here.output == b"\x1b[?2004h\x1b[?1049h\x1b[?1049l" + MODES_OFF


async def test_a_failing_editor_returns_the_terminal(here):
    returned = []
    async with Tty(on_return=lambda: returned.append(1)) as tty:

        async def edit():
            async with tty.lent():
                # An editor that died may leave any modes.
                broken = here.modes()
                broken[3] &= ~termios.ECHO
                termios.tcsetattr(here.theirs, termios.TCSANOW, broken)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await edit()
        assert returned == [1]
        assert not tty.is_lent
        assert not here.modes()[3] & termios.ICANON
    assert here.modes() == here.before


async def test_a_stuck_terminal_does_not_keep_the_program(here):
    async with Tty(on_leave=lambda: b"<leave>") as tty:
        tty.write(b"x" * 1_000_000)
        start = time.monotonic()
        tty.emergency_restore()
        tty.emergency_restore()
        assert time.monotonic() - start < 5
        assert here.modes() == here.before
    here.collect()
    # The rest of the frame is lost, and with it the place of the cursor: nothing is erased.
    assert b"<leave>" not in here.output


async def test_signals_that_the_program_handles_stay_its_own(here):
    def handle(number, frame):
        pass

    before = signal.signal(signal.SIGTERM, handle)
    try:
        hangup = signal.getsignal(signal.SIGHUP)
        async with Tty():
            assert signal.getsignal(signal.SIGTERM) is handle
            assert signal.getsignal(signal.SIGHUP) is not hangup
        assert signal.getsignal(signal.SIGTERM) is handle
        assert signal.getsignal(signal.SIGHUP) is hangup
        async with Tty(handle_signals=False):
            assert signal.getsignal(signal.SIGHUP) is hangup
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_the_size_is_read_each_time(here):
    async with Tty() as tty:
        assert tty.size() == (80, 24)
        here.resize(100, 30)
        assert tty.size() == (100, 30)
        here.resize(0, 0)
        assert tty.size() == (100, 30)


async def test_what_cannot_be_used_is_said_clearly(monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    with pytest.raises(UsageError, match="is a terminal"):
        await Tty().__aenter__()
    monkeypatch.setattr(tty_module, "termios", None)
    with pytest.raises(UsageError, match="POSIX"):
        await Tty().__aenter__()


def test_the_import_needs_no_posix():
    code = "import sys; sys.modules['termios'] = None; import hilum_terminal.tty"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
