"""Exit codes that answer a question are no failures, and what failed says so in the text that the
model reads.
"""

import hilum_files
import hilum_search
import hilum_shell
import pytest
from hilum.errors import E_CMD_FAIL, E_TIMEOUT
from hilum.events import RoundEnded
from hilum.testing import open_bench, use
from hilum_shell.programs import describe_target, is_answer_code

ANSWERS = [
    "grep -r foo .", "cd src && grep foo a.py", "cat a | grep foo", "test -d x", "[ -f x ]", "[[ -f x ]]", "diff a b",
    "ls; grep foo a", "git diff --quiet", "git grep foo", "cmp a b", "rg foo > out.txt", "grep foo a 2>/dev/null",
    "grep a b && grep c d", "pgrep x",
]  # fmt: skip
FAILURES = [
    "python3 t.py", "make && grep foo a", "grep foo a && make", "grep foo a | xargs false", "git status", "(grep foo a)",
    "grep 'foo", "", "grep a b; false", "pytest | tee grep", "./grep x",
]  # fmt: skip


@pytest.mark.parametrize("command", ANSWERS)
def test_one_is_an_answer(command):
    """Exit code 1 of these says no; 2 is a failure of theirs, too."""
    assert is_answer_code(command, 1)
    assert not is_answer_code(command, 2)
    assert not is_answer_code(command, 0)


@pytest.mark.parametrize("command", FAILURES)
def test_one_is_a_failure(command):
    """Where another program may have ended with 1, it counts as a failure."""
    assert not is_answer_code(command, 1)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("pytest -k a", "pytest"), ("cd x && python3 t.py", "python3"), ("FOO=1 sudo -n make all", "make"),
        ("/usr/bin/git status", "git"), ("uv run pytest", "pytest"), ("", ""), ("'open", ""), ("cd x", ""),
    ],
)  # fmt: skip
def test_the_aim_of_a_command_is_its_program(command, program):
    """What three failures in a row are about."""
    assert describe_target({"command": command}) == program


async def test_the_model_reads_the_code_of_a_failure_and_none_of_an_answer(tmp_path):
    """The code stands before the text where a command failed or was late.

    The exit code is always there.
    """
    async with open_bench(hilum_shell, folder=tmp_path, files={"a.txt": "text"}) as kit:
        found = await kit.call("run_terminal_cmd", command="grep nothing a.txt")
        assert (found.code, found.data["exit_code"]) == ("", 1)
        assert found.text.startswith("Exit code 1")
        failed = await kit.call("run_terminal_cmd", command="exit 3")
        assert (failed.code, failed.text.partition(" after")[0]) == (
            E_CMD_FAIL,
            "E_CMD_FAIL: Exit code 3",
        )
        late = await kit.call("run_terminal_cmd", command="sleep 60", timeout=0.1)
        assert (late.code, late.text.partition(" The")[0]) == (E_TIMEOUT, "E_TIMEOUT:")


@pytest.mark.parametrize("times", range(3))
async def test_writes_edits_and_commands_of_one_answer_act_in_order(tmp_path, times):
    """A write, two edits that need it, a command that reads it, a write, a command: each sees what
    came before it.
    """
    path = {"path": "a.txt"}
    show = use("run_terminal_cmd", command="cat a.txt")
    answer = (
        use("write_file", **path, content="one\n")
        + use("edit_file", **path, old_string="one", new_string="two")
        + use("edit_file", **path, old_string="two", new_string="three")
        + show
        + use("write_file", **path, content="four\n")
        + show
        + use("search_files", pattern="four", path=".")
        + use("read_file", **path)
    )
    async with open_bench(
        hilum_shell, hilum_files, hilum_search, folder=tmp_path, answers=[answer, "ok"]
    ) as kit:
        await kit.run("go")
    assert [result.code for result in kit.results] == [""] * 8
    assert "three" in kit.results[3].text
    assert all("four" in result.text for result in kit.results[5:])


async def test_the_bug_is_fixed_at_the_fourth_try(tmp_path):
    """Red, edit, red, edit, red, edit, green: no call is refused, and nobody is told to stop."""
    answers = [use("read_file", path="a.txt")]
    test = use("run_terminal_cmd", command="grep -q fixed a.txt && exit 0; exit 2")
    for n in range(3):
        answers += [test, use("write_file", path="a.txt", content=f"{n}\n")]
    answers += [test, use("write_file", path="a.txt", content="fixed\n"), test, "ok"]
    async with open_bench(
        hilum_shell, hilum_files, folder=tmp_path, answers=answers, files={"a.txt": "broken\n"}
    ) as kit:
        kit.allow_faults()
        await kit.run("go")
    codes = [result.code for result in kit.results if result.name == "run_terminal_cmd"]
    assert codes == [E_CMD_FAIL] * 4 + [""]
    assert [note for event in kit.of(RoundEnded) for note in event.notes if "failed" in note] == []
