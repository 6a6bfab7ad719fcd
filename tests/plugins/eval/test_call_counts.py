"""Which calls count as failed, recovered and wasted."""

import pytest
from hilum_eval.call_counts import count_calls, find_path, find_program
from hilum_eval.transcript import Call, Transcript


def call(tool: str, code: str = "", *, prompt: int = 1, ran: bool = True, **arguments) -> Call:
    writes = tool not in ("read_file", "search_files")
    return Call(
        tool=tool,
        code=code,
        arguments=arguments,
        prompt=prompt,
        started=1.0 if ran else 0.0,
        writes=writes,
    )


def read(path: str, code: str = "", **more) -> Call:
    return call("read_file", code, path=path, **more)


def edit(path: str, old: str = "a", code: str = "", **more) -> Call:
    return call("edit_file", code, path=path, old_string=old, **more)


def shell(command: str, code: str = "", **more) -> Call:
    return call("run_terminal_cmd", code, command=command, **more)


FAILED = "E_CMD_FAIL"


@pytest.mark.parametrize(
    ("calls", "failed", "recovered", "wasted"),
    [
        pytest.param([read("a"), edit("a")], 0, 0, 0, id="nothing fails"),
        pytest.param([edit("a", "x", "E_NOT_FOUND"), edit("a", "y")], 1, 1, 1, id="second edit"),
        pytest.param([edit("a", "x", "E_STALE"), edit("b")], 1, 0, 1, id="another file"),
        pytest.param(
            [edit("a", "x", "E_STALE"), call("write_file", path="a", content="")],
            1,
            1,
            1,
            id="written instead of edited",
        ),
        pytest.param([edit("a", "x", "E_STALE"), read("a")], 1, 0, 1, id="only read again"),
        pytest.param(
            [read("src/a.py", "E_FILE_NOT_FOUND"), read("lib/a.py")], 1, 1, 1, id="right path"
        ),
        pytest.param(
            [read("a", "E_FILE_NOT_FOUND"), read("b", prompt=2)], 1, 0, 1, id="another prompt"
        ),
        pytest.param(
            [shell("pytest -q", FAILED), edit("a"), shell("python -m pytest")],
            1,
            1,
            0,
            id="a failing test is information",
        ),
        pytest.param(
            [shell("make", FAILED), shell("make", FAILED), edit("a"), shell("make")],
            2,
            2,
            1,
            id="the same failure again is not",
        ),
        pytest.param([shell("make", FAILED), shell("ls")], 1, 0, 0, id="another program"),
        pytest.param([read("a"), read("a"), read("a")], 0, 0, 2, id="repetitions"),
        pytest.param([read("a"), edit("a"), read("a")], 0, 0, 0, id="read after a change"),
        pytest.param(
            [read("a", "E_PATH_TRAVERSAL")], 1, 1, 1, id="a refused call that is not repeated"
        ),
        pytest.param(
            [read("a", "E_DENIED"), read("a", "E_DENIED")],
            2,
            1,
            2,
            id="a refused call that is repeated",
        ),
        pytest.param(
            [call("raed_file", "E_UNKNOWN_TOOL", path="a", ran=False), read("a")],
            1,
            1,
            1,
            id="an unknown tool",
        ),
    ],
)
def test_calls_are_counted(calls, failed, recovered, wasted):
    usage = count_calls(Transcript(answers=("Done.",) * 2, calls=tuple(calls)))
    assert usage.calls == len(calls)
    assert (usage.failed_calls, usage.recovered_calls, usage.wasted_calls) == (
        failed,
        recovered,
        wasted,
    )


def test_a_refused_call_without_an_answer_is_not_recovered():
    usage = count_calls(Transcript(answers=(), calls=(read("a", "E_DENIED"),)))
    assert usage.recovered_calls == 0


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("pytest -q", "pytest"),
        ("cd src && python3 -m pytest", "pytest"),
        ("DEBUG=1 /usr/bin/make all", "make"),
        ("python3 app.py", "python3"),
        ("", ""),
    ],
)
def test_the_program_of_a_command(command, program):
    assert find_program(shell(command)) == program


def test_the_file_of_a_call():
    assert find_path(read("./a.py")) == "a.py"
    assert find_path(call("view", file_path="b")) == "b"
    assert find_path(shell("ls")) == ""
