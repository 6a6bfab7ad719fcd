"""Commands in the background: started, listed, read, written to, stopped, and never left behind."""

import os
import signal
import sys
from pathlib import Path

import pytest
import trio
import trio.testing
from hilum import ToolError
from hilum.errors import E_BAD_ARGS, E_BUSY, E_CMD_FAIL, E_TIMEOUT, E_UNKNOWN

pytestmark = pytest.mark.slow(cases=18, of="file")

PYTHON = f"exec {sys.executable} -u -c"
# Ignores what can be ignored, and has a double-forked child in a session of its own that does the
# same.
STUBBORN = """
trap '' TERM INT HUP
echo $$ >>pids
( setsid bash -c 'trap "" TERM INT HUP; echo $$ >>pids; echo up; while :; do sleep 30; done' & ) &
while :; do sleep 30; done
"""


async def begin(run, command: str, up: str = "", **arguments) -> str:
    """Start a service, and wait until it has printed something; gives its id."""
    output = await run(command, background=True, **arguments)
    assert output.data["state"] == "running", output.text
    name = output.data["service"]
    if up:
        output = await run(tool="read_service", service=name, wait_for=up)
        assert output.text.startswith("Found: "), output.text
    return name


@pytest.fixture
def long_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the answer to the start wait for what ends at once, however busy the machine is."""
    monkeypatch.setattr("hilum_shell.shell.START_WATCH_SECONDS", 20.0)


# --- starting -------------------------------------------------------------------------------------


async def test_a_background_command_answers_at_once_and_goes_on(run, root: Path, left) -> None:
    """The answer names the service and shows what it printed at the start; the process lives."""
    with trio.fail_after(60):
        output = await run("echo $$ >pids; echo ready; exec sleep 1000", background=True)
    assert output.text.startswith("The command runs in the background as s1, until it is stopped.")
    assert output.code == ""
    output = await run(tool="read_service", service="s1", wait_for="ready")
    assert output.text.startswith("Found: ready")
    assert len(left(root)) == 1


async def test_a_background_command_that_fails_at_once_is_told(run, long_look) -> None:
    """Exit code and output are in the answer to the start, with the code of a failure."""
    output = await run("echo out; echo no such port >&2; exit 3", background=True)
    assert output.code == E_CMD_FAIL
    assert output.text.startswith("s1 (echo out; echo no such port >&2; exit 3): ended after ")
    assert "(exit code 3)" in output.text
    assert output.text.endswith("\nout\nno such port")
    assert output.data["exit_code"] == 3


async def test_what_cannot_start_in_the_background_is_told(run) -> None:
    """No folder and no command are refused, and nothing is listed."""
    with pytest.raises(ToolError):
        await run("pwd", working_directory="nowhere", background=True)
    with pytest.raises(ToolError):
        await run(" ", background=True)
    with pytest.raises(ToolError, match=r"(?i)too long"):
        await run(": " + "x" * 3_000_000, background=True)
    assert (await run(tool="list_services")).text == "There are no services."


async def test_more_services_than_allowed_are_refused(run) -> None:
    """The limit counts those that run; one that was stopped makes room."""
    first = await begin(run, "sleep 1000", settings={"services": 2})
    await begin(run, "sleep 1000")
    with pytest.raises(ToolError, match="2 commands are already in the background") as caught:
        await run("sleep 1000", background=True)
    assert caught.value.code == E_BUSY
    await run(tool="stop_service", service=first)
    assert await begin(run, "sleep 1000") == "s3"


async def test_a_background_command_may_have_a_time_limit(clock, run, root: Path, left) -> None:
    """It is ended when its time is over, and the reader is told so."""
    name = await begin(run, STUBBORN, up="up", timeout=50)
    clock.jump(50)
    output = await run(tool="read_service", service=name, timeout=20)
    assert output.code == E_TIMEOUT
    assert "its time limit" in output.text
    assert left(root) == []


# --- reading --------------------------------------------------------------------------------------


async def test_reading_gives_what_is_new(run, root: Path) -> None:
    """Each read goes on where the last one stopped; the wait ends the moment the command does."""
    os.mkfifo(root / "gate")
    name = await begin(run, "echo one; read x <gate; echo two; exit 4", up="one")
    assert (await run(tool="read_service", service=name)).text.endswith("\n[nothing new]")
    await trio.Path(root / "gate").write_text("x\n")
    with trio.fail_after(60):
        output = await run(tool="read_service", service=name, timeout=600)
    assert output.text.endswith("\ntwo")
    assert (output.code, output.data["exit_code"]) == (E_CMD_FAIL, 4)
    again = await run(tool="read_service", service=name)
    assert (again.code, again.text.split("\n")[-1]) == ("", "[nothing new]")


async def test_reading_from_an_offset_goes_page_by_page(run) -> None:
    """All of the output can be read again, in pages that say where the next one begins."""
    name = await begin(run, "seq 1 1000; sleep 1000", settings={"output_limit": 1000})
    await run(tool="read_service", service=name, wait_for="^1000$")
    offset, text = 0, ""
    while True:
        output = await run(tool="read_service", service=name, offset=offset)
        body = output.text.split("\n", 1)[1].partition("\n[there is more")[0]
        text += body
        assert len(body) <= 1000
        more = f"[there is more: offset={output.data['offset']}]" in output.text
        offset = output.data["offset"]
        if not more:
            break
    assert text.replace("\n", "") == "".join(str(number) for number in range(1, 1001))


async def test_long_output_is_cut_in_its_middle_and_says_how_to_read_it(run, root: Path) -> None:
    """The head and the tail come, and the offset that pages begin at."""
    os.mkfifo(root / "gate")
    name = await begin(run, "read x <gate; echo first; seq 1 100000; echo last; sleep 1000")
    await trio.Path(root / "gate").write_text("x\n")
    output = await run(tool="read_service", service=name, wait_for="last")
    assert "\nfirst\n1\n2\n" in output.text
    assert output.text.endswith("\nlast")
    assert "characters left out" in output.text
    assert "offset=0 reads them page by page" in output.text
    assert len(output.text) < 30_400


async def test_the_spool_is_bounded(run) -> None:
    """Of a service that prints much the last part is kept; what is gone is said."""
    command = "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end; sleep 1000"
    name = await begin(run, command, settings={"spool": 10_000})
    output = await run(tool="read_service", service=name, wait_for="the end", offset=0)
    assert output.text.startswith("Found: the end\n")
    assert "of its output are no longer kept]" in output.text
    begun = 20_000_009 - int(output.text.partition("[bytes 0 to ")[2].partition(" ")[0])
    assert 9_000 <= begun <= 20_000


async def test_waiting_for_a_pattern(run, root: Path) -> None:
    """It ends with the pattern, gives its line, and finds what is there already.

    Escapes do not hide it.
    """
    os.mkfifo(root / "gate")
    name = await begin(
        run,
        r"echo early; read x <gate; printf '\033[32mListening\033[0m on \033[1m:8080\033[0m\n'; sleep 1000",
    )
    assert (
        await run(tool="read_service", service=name, offset=0, wait_for="^ear")
    ).text.startswith("Found: early\n")
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            with trio.fail_after(60):
                output = await run(
                    tool="read_service",
                    service=name,
                    wait_for=r"listening on :\d+|Listening on :\d+$",
                )
            assert output.text.startswith("Found: Listening on :8080\n")
            assert output.text.endswith("\nListening on :8080")

        nursery.start_soon(read)
        await trio.Path(root / "gate").write_text("x\n")


async def test_a_pattern_that_does_not_come_is_said(run) -> None:
    """After the time, or when the command ends without it; what came is given."""
    name = await begin(run, "echo something; sleep 1000", up="thing")
    output = await run(tool="read_service", service=name, wait_for="never", timeout=0.1, offset=0)
    assert output.text.startswith("No output matched the pattern within 0.1 s.\n")
    assert output.text.endswith("\nsomething")
    name = (await run("echo short", background=True)).data["service"]
    with trio.fail_after(60):
        output = await run(tool="read_service", service=name, wait_for="never", timeout=600)
    assert output.text.startswith("The service ended without output that matches the pattern.\n")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "(?P<1>x)", "\\"])
async def test_an_invalid_pattern_is_refused_in_words(run, pattern: str) -> None:
    """As wrong arguments, with what is wrong."""
    name = await begin(run, "sleep 1000")
    for tool, more in (("read_service", {}), ("write_service", {"text": "x"})):
        with pytest.raises(ToolError, match="This is not a valid regular expression: ") as caught:
            await run(tool=tool, service=name, wait_for=pattern, **more)
        assert caught.value.code == E_BAD_ARGS


async def test_a_pattern_that_takes_for_ever_is_given_up(run) -> None:
    """A search that would take years ends in less than a second."""
    name = await begin(run, f"echo {'a' * 60}b; sleep 1000")
    with trio.fail_after(60), pytest.raises(ToolError, match="takes too long") as caught:
        await run(tool="read_service", service=name, wait_for="(a|a)*$", offset=0)
    assert caught.value.code == E_BAD_ARGS


async def test_progress_and_escapes_are_cleaned(run, long_look) -> None:
    """Of a progress bar the last state is read, and no escapes."""
    name = (
        await run(r"printf '\033[2K10%%\r\033[2K50%%\r\033[2K100%%\ndone\n'", background=True)
    ).data["service"]
    assert (await run(tool="read_service", service=name, offset=0)).text.endswith("\n100%\ndone")


async def test_listing_says_how_each_is(run) -> None:
    """Running, failed and stopped ones, with what they printed."""
    running = await begin(run, "echo hello; sleep 1000", up="hello")
    stopped = await begin(run, "sleep 1000")
    await run(tool="stop_service", service=stopped)
    await run("exit 7", background=True)
    await run(tool="read_service", service="s3", timeout=50)
    output = await run(tool="list_services")
    first, second, third = output.text.split("\n")
    assert first.startswith(f"{running} (echo hello; sleep 1000): running for ")
    assert first.endswith("; 6 bytes of output")
    assert "stopped after" in second
    assert "stop_service was called" in second
    assert "(exit code 7)" in third
    assert [row["state"] for row in output.data["services"]] == ["running", "stopped", "exited"]


async def test_an_unknown_service_is_told_with_those_there_are(run) -> None:
    """All four tools that name one."""
    for tool, more in (
        ("read_service", {}),
        ("write_service", {"text": "x"}),
        ("stop_service", {}),
    ):
        with pytest.raises(
            ToolError, match=r"There is no service 's9'\. No service was started\."
        ) as caught:
            await run(tool=tool, service="s9", **more)
        assert caught.value.code == E_UNKNOWN
    await begin(run, "sleep 1000")
    with pytest.raises(ToolError, match=r"s1"):
        await run(tool="read_service", service="server")


# --- writing --------------------------------------------------------------------------------------


async def test_a_dialogue(run) -> None:
    """What is typed is read by the command, and the answer comes back; the end of input ends it."""
    name = await begin(
        run, f'{PYTHON} \'while True: print("Hello " + input("name? "))\'', up="name"
    )
    output = await run(tool="write_service", service=name, text="Ada", wait_for="name")
    assert output.text.startswith("Found: ")
    assert "Hello Ada" in output.text
    output = await run(tool="write_service", service=name, text="Bob", timeout=50)
    assert "Hello Bob" in output.text
    assert "Hello Ada" not in output.text
    await run(tool="write_service", service=name, text="", enter=False, end_input=True)
    output = await run(tool="read_service", service=name, timeout=50)
    assert output.data["state"] == "exited"


async def test_writing_where_nothing_is_read_does_not_hang(run) -> None:
    """Input that fills the pipe is given up in time.

    A command that closed its input or has ended is told.
    """
    name = await begin(run, "sleep 1000")
    with trio.fail_after(60):
        output = await run(tool="write_service", service=name, text="x" * 1_000_000, timeout=1)
    assert output.text.startswith("It has not yet read all of the input")
    name = await begin(run, "exec <&-; echo closed; sleep 1000", up="closed")
    with pytest.raises(ToolError, match="no longer reads input"):
        await run(tool="write_service", service=name, text="x" * 1_000_000)
    await run(tool="stop_service", service=name)
    with pytest.raises(ToolError, match=r"does not accept input\. It has ended\."):
        await run(tool="write_service", service=name, text="x")


async def test_input_stays_open_for_watchers(run) -> None:
    """A service whose input nobody writes to does not see its end: many watchers would stop
    then.
    """
    name = await begin(run, "cat; echo saw the end")
    output = await run(tool="read_service", service=name)
    assert output.text.endswith("[no output]")
    assert output.data["state"] == "running"


# --- stopping -------------------------------------------------------------------------------------


async def test_stopping_ends_the_most_stubborn_tree(run, root: Path, left) -> None:
    """Ignored signals, new sessions and double forks do not help.

    The answer comes when nothing is left.
    """
    name = await begin(run, STUBBORN, up="up")
    with trio.fail_after(60):
        output = await run(tool="stop_service", service=name)
    assert output.data["state"] == "stopped"
    assert output.code == ""
    assert len((root / "pids").read_text().split()) == 2
    assert left(root) == []
    again = await run(tool="stop_service", service=name)
    assert again.text.split("\n")[0].startswith(output.text.split(":")[0])


async def test_stopping_lets_a_command_end_well(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked first, and what it prints on its way out is read."""
    monkeypatch.setattr("hilum_shell.shell.STOP_GRACE_SECONDS", 50.0)
    command = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    name = await begin(run, command, up="up")
    output = await run(tool="stop_service", service=name)
    assert output.text.endswith("\nsaved")
    assert output.data["exit_code"] == 0


async def test_a_swarm_of_processes_is_ended(run, root: Path, left) -> None:
    """A command that forks again and again, each process in a session of its own, is ended
    whole.
    """
    (root / "swarm.sh").write_text(
        'echo $$ >>pids\nif [ "$1" -gt 0 ]; then setsid bash swarm.sh $(($1 - 1)) & setsid bash swarm.sh $(($1 - 1)) & fi\n'
        '[ "$1" -eq 0 ] && echo leaf\nexec sleep 1000\n'
    )
    name = await begin(
        run, "bash swarm.sh 5 | tee >(sed -u -n '32s/.*/all there/p') >/dev/null; sleep 1000"
    )
    output = await run(tool="read_service", service=name, wait_for="all there", timeout=20)
    assert output.text.startswith("Found: "), output.text
    assert len(left(root)) == 63
    await run(tool="stop_service", service=name)
    assert left(root) == []


async def test_a_service_killed_from_outside_is_told(run, root: Path) -> None:
    """The signal is named."""
    name = await begin(run, "echo $$ >pids; echo up; exec sleep 1000", up="up")
    os.kill(int((root / "pids").read_text()), signal.SIGKILL)
    output = await run(tool="read_service", service=name, timeout=50)
    assert "(ended by signal 9 (SIGKILL))" in output.text
    assert output.code == E_CMD_FAIL


async def test_a_service_that_forks_itself_goes_on(run, root: Path, left) -> None:
    """The end of the command that started it is told; it can be stopped by the same name."""
    os.mkfifo(root / "up")
    await run(
        "setsid sh -c 'echo $$ >>pids; echo >up; exec sleep 1000' & read x <up", background=True
    )
    with trio.fail_after(60):
        while "its command has ended (exit code 0)" not in (await run(tool="list_services")).text:  # noqa: ASYNC110
            await trio.sleep(0.01)
    assert len(left(root)) == 1
    assert "stopped after" in (await run(tool="stop_service", service="s1")).text
    assert left(root) == []


async def test_closing_the_session_ends_all_services(run, root: Path, left) -> None:
    """Nothing is left when the session is closed, however stubborn. (A new session closes the one
    before.)
    """
    for _ in range(3):
        await begin(run, STUBBORN, up="up")
    assert len(left(root)) >= 3
    await run("true", settings={})
    assert left(root) == []


# --- late commands --------------------------------------------------------------------------------


async def test_a_late_command_goes_on_in_the_background(clock, run, root: Path, screen) -> None:
    """Without a timeout of its own it is not ended: the answer says where it is, and its end can be
    read.
    """
    os.mkfifo(root / "gate")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "first\n", clock, 20)
        output = await run(
            "echo first; read x <gate; echo second; exit 5", settings={"timeout": 20}
        )
    assert output.code == ""
    assert "It still runs, now in the background as s1: do not start it again." in output.text
    assert output.text.endswith("\nIts output so far:\nfirst")
    assert output.data["service"] == "s1"
    await trio.Path(root / "gate").write_text("x\n")
    output = await run(tool="read_service", service="s1", timeout=50)
    assert output.text.endswith("\nsecond")
    assert output.code == E_CMD_FAIL
    assert "exit code 5" in output.text


async def test_a_silent_command_goes_on_in_the_background(clock, run, screen) -> None:
    """One that prints nothing for some time is not waited for to the end of its time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "listening\n", clock, 20)
        output = await run("echo listening; sleep 1000", settings={"timeout": 600, "quiet": 20})
    assert "now in the background as s1" in output.text


async def test_a_command_that_prints_is_waited_for(clock, run, root: Path, screen) -> None:
    """However long it takes in all, if it is never silent for long."""
    for number in (
        1,
        2,
        3,
    ):  # one each: a second reader could meet the first writer before it has closed
        os.mkfifo(root / f"gate{number}")

    async def work() -> None:
        for number in (1, 2, 3):
            await screen.then_jump("".join(f"{n}\n" for n in range(1, number + 1)), clock, 12)
            await trio.Path(root / f"gate{number}").write_text("x\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        output = await run(
            "for n in 1 2 3; do echo $n; read x <gate$n; done",
            settings={"timeout": 600, "quiet": 20},
        )
    assert output.text.startswith("Exit code 0")


async def test_a_late_command_is_ended_where_there_is_no_room(
    clock, run, root: Path, screen, left
) -> None:
    """It would be one service too many."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "up\n", clock, 20)
        output = await run(
            "echo $$ >pids; echo up; sleep 1000", settings={"timeout": 20, "services": 0}
        )
    assert output.code == E_TIMEOUT
    assert output.text.startswith(
        "0 commands are already in the background, and no more are allowed."
    )
    assert left(root) == []


async def test_a_late_command_has_an_end(clock, run, root: Path, screen, left) -> None:
    """In the background, too, it is ended after the longest time that a command may take."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "up\n", clock, 20)
        await run("echo $$ >pids; echo up; sleep 1000", settings={"timeout": 20, "max_timeout": 40})
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(25)
    output = await run(tool="read_service", service="s1", timeout=50)
    assert output.code == E_TIMEOUT
    assert left(root) == []


async def test_a_moved_command_takes_no_input(run) -> None:
    """It was started without any, and the answer says what to do."""
    await run("sleep 1000", settings={"timeout": 0.2})
    with pytest.raises(ToolError, match="background=true"):
        await run(tool="write_service", service="s1", text="x")


async def test_the_model_is_told_what_was_ended_with_a_command(run, root: Path, left) -> None:
    """A server started with & does not live on where there is no room for it, and the answer says
    so.
    """
    os.mkfifo(root / "up")
    child = "setsid sh -c 'echo $$ >>pids; echo >up; exec sleep 1000'"
    output = await run(
        f"({child} >/dev/null 2>&1 &); read x <up; echo done", settings={"services": 0}
    )
    assert output.text.startswith("Exit code 0")
    assert (
        "\ndone\n[It left processes running in the background, which were ended with it."
        in output.text
    )
    assert left(root) == []
    assert "It left processes" not in (await run("sleep 0.01 & echo x | cat; wait")).text


# --- moved by the user ----------------------------------------------------------------------------


async def test_the_user_moves_a_command_to_the_background(
    run, root: Path, screen, services
) -> None:
    """The call returns at once with the output so far, and the command goes on."""
    os.mkfifo(root / "gate")

    async def move() -> None:
        await screen.wait_for("first\n")
        assert services().move_waiting() == 1
        assert services().move_waiting() == 0, "it is being moved already"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(move)
        # A time limit that the call sets does not keep the user from moving the command.
        output = await run("echo first; read x <gate; echo second; exit 5", timeout=500)
    assert output.code == ""
    assert output.text.startswith("The user moved the command to the background after ")
    assert "It still runs, now in the background as s1: do not start it again." in output.text
    assert output.text.endswith("\nIts output so far:\nfirst")
    assert output.data["service"] == "s1"
    assert [service.id for service in services().running()] == ["s1"]
    await trio.Path(root / "gate").write_text("x\n")
    output = await run(tool="read_service", service="s1", timeout=50)
    assert output.text.endswith("\nsecond")
    assert "exit code 5" in output.text


async def test_nothing_is_moved_if_no_call_waits(run, services) -> None:
    await run("true")
    await begin(run, "sleep 1000")
    assert services().move_waiting() == 0


async def test_the_user_cannot_move_more_commands_than_allowed(
    run, root: Path, screen, services
) -> None:
    """The command in the foreground is still waited for."""
    os.mkfifo(root / "gate")
    await begin(run, "sleep 1000", settings={"services": 1})

    async def move() -> None:
        await screen.wait_for("up\n")
        with pytest.raises(ToolError, match="1 commands are already in the background") as caught:
            services().move_waiting()
        assert caught.value.code == E_BUSY
        await trio.Path(root / "gate").write_text("x\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(move)
        output = await run("echo up; read x <gate; echo done")
    assert output.text.startswith("Exit code 0")


async def test_of_two_commands_only_those_with_room_move(run, root: Path, screen, services) -> None:
    os.mkfifo(root / "gate")
    ended: list[str] = []

    async def call(command: str) -> None:
        ended.append((await run(command)).text)

    await run("true", settings={"services": 1})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, "echo up; sleep 1000")
        await screen.wait_for("up\n")
        nursery.start_soon(call, "echo up; read x <gate")
        await screen.wait_for("up\nup\n")
        assert services().move_waiting() == 1
        await trio.testing.wait_all_tasks_blocked()
        await trio.Path(root / "gate").write_text("x\n")
    assert ended[0].startswith("The user moved the command")
    assert ended[1].startswith("Exit code 0")
