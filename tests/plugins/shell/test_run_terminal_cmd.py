"""run_terminal_cmd: exit codes, output, time limits, and that nothing waits and nothing stays."""

import os
import shutil
import tracemalloc
from pathlib import Path

import hilum_shell
import pytest
import trio
from hilum import ToolError
from hilum.errors import E_BAD_ARGS, E_CMD_FAIL, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL, E_TIMEOUT


async def answer(gate: Path, screen, seen: str) -> None:
    """Let a command go on that reads from a pipe, once this was shown."""
    await screen.wait_for(seen)
    await trio.Path(gate).write_text("x\n")


# --- what comes back ------------------------------------------------------------------------------


async def test_success(run, screen) -> None:
    """Exit code first, then the output; faces see it too."""
    output = await run("echo hello; echo there")
    first, rest = output.text.split("\n", 1)
    assert first.startswith("Exit code 0 after ")
    assert rest == "hello\nthere"
    assert (output.code, output.data["exit_code"], output.data["left_out"]) == ("", 0, 0)
    assert screen.text == "hello\nthere\n"


async def test_failure(run) -> None:
    """A failing command is told with its code and both outputs, standard error under its
    heading.
    """
    output = await run("echo out; echo err >&2; exit 3")
    assert output.code == E_CMD_FAIL
    assert output.text.startswith("Exit code 3 after ")
    assert output.text.endswith("\nout\n[standard error]\nerr")
    assert output.data["exit_code"] == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program-here", "Exit code 127"),
        ("if then", "syntax error"),
        ("kill -9 $$", "Ended by signal 9 (SIGKILL)"),
        ("exit 3 | exit 4", "Exit code 4"),
        ("-ls", "Exit code 127"),
    ],
)
async def test_other_failures(run, command: str, words: str) -> None:
    """Unknown programs, bad syntax, signals and odd command lines are failures in words."""
    output = await run(command)
    assert output.code == E_CMD_FAIL
    assert words in output.text


async def test_no_output(run) -> None:
    """Silence is said."""
    assert (await run("true")).text.endswith(" s\n[no output]")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
async def test_bash_where_there_is_bash(run) -> None:
    """What only bash can do works where it is installed."""
    assert (await run("[[ abc == a* ]] && echo ${BASH_VERSION:+bash}")).text.endswith("\nbash")


async def test_working_directory(run, root: Path) -> None:
    """The command runs in the folder asked for, in the workspace without one, and nowhere else."""
    (root / "sub").mkdir()
    (root / "file").touch()
    (root / "out").symlink_to("..")
    assert (await run("pwd")).text.endswith(f"\n{root}")
    assert (await run("pwd", working_directory="sub")).text.endswith(f"\n{root}/sub")
    assert (await run("pwd", working_directory=str(root / "sub"))).text.endswith(f"\n{root}/sub")
    for folder, code in (
        ("..", E_PATH_TRAVERSAL),
        ("/tmp", E_PATH_TRAVERSAL),
        ("out", E_PATH_TRAVERSAL),
        ("sbu", E_FILE_NOT_FOUND),
        ("file", E_BAD_ARGS),
    ):
        with pytest.raises(ToolError) as caught:
            await run("pwd", working_directory=folder)
        assert caught.value.code == code


async def test_what_is_no_command(run) -> None:
    """Nothing, a null byte and a line too long for the system are refused in words."""
    for command in ("", "  \n", "echo a\0b"):
        with pytest.raises(ToolError) as caught:
            await run(command)
        assert caught.value.code == E_BAD_ARGS
    with pytest.raises(ToolError, match=r"(?i)too long"):
        await run(": " + "x" * 3_000_000)


# --- nothing waits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    ["cat", "read line; echo got:$line", "python3 -c 'input()'", "head -c 1 /dev/tty", "sh"],
)
async def test_reading_input_ends_at_once(run, command: str) -> None:
    """Standard input is empty and there is no terminal, so that what asks gets an end instead of a
    wait.
    """
    with trio.fail_after(60):
        await run(command)


async def test_pagers_do_not_page(run, root: Path) -> None:
    """Git, and whatever takes the usual variables, writes plainly."""
    assert (await run("echo $PAGER $GIT_PAGER $MANPAGER $TERM")).text.endswith("\ncat cat cat dumb")
    if shutil.which("git"):
        setup = (
            "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first"
        )
        assert "first" in (await run(f"{setup} && git --paginate log")).text


async def test_environment_is_the_users(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user's shell has set is there, prompts are off, and hilum adds no settings of its
    own Python.
    """
    monkeypatch.setenv("MY_PROJECT", "yes")
    for name in ("PYTHONPATH", "PYTHONHOME"):
        monkeypatch.delenv(name, raising=False)
    text = (await run("env")).text
    assert "MY_PROJECT=yes" in text
    assert "GIT_TERMINAL_PROMPT=0" in text
    assert "DEBIAN_FRONTEND=noninteractive" in text
    assert [
        line for line in text.split("\n") if line.startswith(("PYTHONPATH", "PYTHONHOME"))
    ] == []


# --- nothing stays --------------------------------------------------------------------------------


async def test_timeout_gives_the_output_so_far(clock, run, root: Path, screen, left) -> None:
    """A command over its time is ended with all it started.

    The model gets what there was, and advice.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "begun\nbad\n", clock, 20)
        command = "echo $$ >pids; sleep 1000 & echo $! >>pids; mkfifo gate; echo begun; read x <gate; echo bad >&2; wait"
        nursery.start_soon(answer, root / "gate", screen, "begun\n")
        output = await run(command, timeout=20)
    assert output.code == E_TIMEOUT
    assert "longer than 20 s" in output.text
    assert output.text.endswith("\nIts output so far:\nbegun\n[standard error]\nbad")
    assert output.data["exit_code"] is None
    assert left(root) == []


async def test_timeout_of_the_stubborn(clock, run, root: Path, screen, left) -> None:
    """Ignoring signals, new sessions and double forks do not help a command to outlive its time."""
    stubborn = (
        "trap '' TERM INT HUP; echo $$ >pids; "
        "(setsid sh -c 'trap \"\" TERM; echo $$ >>pids; echo up; while :; do sleep 1; done' &) ; while :; do sleep 1; done"
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.then_jump, "up\n", clock, 20)
        output = await run(stubborn, timeout=20)
    assert output.code == E_TIMEOUT
    assert len((root / "pids").read_text().split()) == 2
    assert left(root) == []


async def test_time_limits_come_from_settings_and_arguments(run) -> None:
    """The setting holds without an argument, the maximum always.

    The kernel's limit is above both.
    """
    ending = {"when_late": "end"}
    assert (await run("sleep 60", settings={"timeout": 0.2, **ending})).code == E_TIMEOUT
    assert (await run("sleep 60", timeout=0, settings={"timeout": 0.2})).code == E_TIMEOUT
    assert (await run("sleep 60", timeout=50, settings={"max_timeout": 0.2})).code == E_TIMEOUT


async def test_the_kernel_waits_longer_than_the_tool(bench) -> None:
    """So that the output so far gets back to the model."""
    [session] = [(await bench(hilum_shell)).session]
    tool = session.tools["run_terminal_cmd"]
    for asked, limit in ((None, 120), (5, 5), (99999, 3600)):
        assert tool.time_limit({"timeout": asked}) > limit


async def test_cancellation_leaves_nothing(run, root: Path, screen, left) -> None:
    """A stopped call ends its processes before the cancellation goes on."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, "echo $$ >pids; sleep 1000 & echo $! >>pids; echo ready; wait")
            await screen.wait_for("ready\n")
            scope.cancel()
    assert left(root) == []


@pytest.mark.parametrize(
    "how", ["CHILD &", "nohup CHILD &", "(setsid CHILD &)", "CHILD >/dev/null 2>&1 &"]
)
async def test_background_child_does_not_hold_its_command_up(
    run, root: Path, how: str, left
) -> None:
    """A command that leaves something behind is done when it is done, and what it left is a
    service.
    """
    os.mkfifo(root / "up")
    child = "sh -c 'echo $$ >>pids; echo >up; exec sleep 1000'"
    with trio.fail_after(60):
        output = await run(f"{how.replace('CHILD', child)}\nread x <up; echo done")
    assert "done" in output.text
    assert output.data["service"] == "s1"
    assert len(left(root)) == 1
    await run(tool="stop_service", service="s1")
    assert left(root) == []


# --- output ---------------------------------------------------------------------------------------


async def test_output_comes_as_it_is_written(run, root: Path, screen) -> None:
    """Faces see a line while the command still runs, both streams in their order."""
    for gate in (
        "first",
        "second",
    ):  # one each: a second reader could meet the first writer before it has closed
        os.mkfifo(root / gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "echo one; read x <first; echo two >&2; read x <second; echo three")
        for seen, gate in (("one\n", "first"), ("one\ntwo\n", "second")):
            await screen.wait_for(seen)
            await trio.Path(root / gate).write_text("x\n")
    assert screen.text == "one\ntwo\nthree\n"


async def test_output_without_end(run, screen) -> None:
    """Output without end costs bounded memory.

    The model gets its head and its tail, how much is missing, and how to read on.
    """
    tracemalloc.start()
    output = await run("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(output.text) < 30_400
    assert "\nfirst\nxxx" in output.text
    assert f"\n[… {20_000_012 - 30_000:,} of 20,000,012 characters left out …]\n" in output.text
    shown, _, note = output.text.rpartition("\n")
    assert shown.endswith("xxx\nlast")
    assert note.startswith(
        "[The output was cut. In full it has 20,000,012 characters in 3 lines. Its last "
    )
    assert output.data["left_out"] == 20_000_012 - 30_000
    assert len(screen.text) == 20_000_012
    # The test itself keeps the whole output once, for the screen.
    assert peak < 40_000_000


async def test_long_standard_error_leaves_room(run) -> None:
    """When both streams are long, each gets half."""
    output = await run("yes out | head -n 100000; yes err | head -n 100000 >&2")
    stdout, stderr = output.text.split("[standard error]")
    assert 15_000 < len(stdout) < 15_200
    assert 14_900 < len(stderr) < 15_400
    assert "In full it has 800,000 characters in 200,000 lines." in stderr


async def test_output_limit_is_a_setting(run) -> None:
    """A smaller limit cuts earlier."""
    output = await run("seq 1 1000", settings={"output_limit": 100})
    assert len(output.text.rpartition("\n")[0]) < 200
    assert "3,793 of 3,893 characters left out" in output.text


async def test_output_that_was_cut_can_be_read_on(run) -> None:
    """It is kept like that of a service: from its beginning, and searched for a line."""
    settings = {"output_limit": 300}
    output = await run("seq 1 1000; exit 3", settings=settings)
    assert output.code == E_CMD_FAIL
    assert output.text.endswith(
        "[The output was cut. In full it has 3,893 characters in 1,000 lines. All of it is kept as"
        " s1: read_service('s1', offset=0) reads it page by page, with wait_for='REGEX' it finds"
        " a line.]"
    )
    first = await run(tool="read_service", service="s1", offset=0)
    assert "exit code 3" in first.text
    assert "\n1\n2\n3\n" in first.text
    second = await run(tool="read_service", service="s1", offset=first.data["offset"])
    assert f"[there is more: offset={second.data['offset']}]" in second.text
    assert second.code == ""  # its failure was reported with the command
    found = await run(tool="read_service", service="s1", wait_for="^77.$", offset=0)
    assert found.text.startswith("Found: 770\n")


async def test_output_that_was_shown_whole_is_not_kept(run) -> None:
    """Only output that was cut gets an id."""
    await run("echo all")
    assert (await run(tool="list_services")).text == "There are no services."


async def test_escapes_do_not_reach_the_model(run, screen) -> None:
    """Colours, titles, links and bells are taken out of the text.

    Progress bars leave their last state.
    """
    output = await run(
        r"printf '\033[1;31mred\033[0m \033]0;title\007t \033]8;;http://x\033\\link\033]8;;\033\\ \a\b\0\n';"
        r"printf '10%%\r55%%\r100%%\r\n'; printf 'crlf\r\nb\bbold\t|\n\033Pdata\033\\end\033(B'"
    )
    assert output.text.split("\n", 1)[1] == "red t link \n100%\ncrlf\nbold\t|\nend"
    assert "\x1b[1;31m" in screen.text


async def test_bad_and_split_utf8(run, screen) -> None:
    """Bytes that are no text become marks; a character that comes in two pieces stays whole."""
    output = await run(r"printf 'caf\351 \303'; sleep 0.2; printf '\251\n'")
    assert output.text.endswith("\ncaf� é")
    assert screen.text == "caf� é\n"


async def test_many_at_once(run, root: Path) -> None:
    """Commands run beside each other, none waits for another, and outputs do not mix."""
    results: dict[int, str] = {}

    async def one(number: int) -> None:  # none ends before all of them run
        results[number] = (
            await run(
                f"touch {number}; while set -- *; [ $# -lt 10 ]; do sleep 0.02; done; echo {number}"
            )
        ).text

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(one, number)
    assert [results[number].split("\n")[1] for number in range(10)] == [
        str(number) for number in range(10)
    ]
