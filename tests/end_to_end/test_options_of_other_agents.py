"""What users of other agents type first: it works, or the error names hilum's own option."""

import re
import shlex

import pytest
from hilum.command import Parser
from hilum.command.foreign import FOREIGN_OPTIONS
from hilum.errors import UsageError
from hilum_cli.run import make_parser, parse


async def test_continue_takes_up_the_last_session_of_the_folder(cli):
    """In both spellings; with an id there is a conflict, and without a session an error."""
    async with cli.model("One.", "Two.", "Three.") as server:
        await cli("run", "the first task")
        await cli("run", "-c", "the second")
        done = await cli("run", "--continue", "the third", "--output-format", "json")
        assert done.code == 0, done
    assert "the first task" in server.bodies[2].decode()
    assert "the second" in server.bodies[2].decode()
    done = await cli("run", "-c", "--resume", "20260101", "more")
    assert (done.code, "cannot be combined" in done.err) == (2, True), done
    done = await cli("run", "-c", "more", "-C", str(cli.folder))
    assert (done.code, "There is no session" in done.err) == (2, True), done


async def test_max_turns_limits_the_calls_of_the_model(cli, asks):
    """The run ends as partial; a number below one is an error before anything starts."""
    (cli.workspace / "a.txt").write_text("a")
    async with cli.model(lambda request: asks("read_file", path="a.txt", id=f"c{request.number}")):
        done = await cli("run", "go", "--max-turns", "2", "--output-format", "json")
    assert (done.code, done.result["turns"]) == (3, 2), done
    for wrong in ("0", "-3", "many", "1.5"):
        done = await cli("run", "go", f"--max-turns={wrong}")
        assert (done.code, "max-turns" in done.err) == (2, True), done


async def test_print_is_accepted_because_run_always_prints(cli):
    """In both spellings, before the prompt and after it."""
    async with cli.model("Done.", "Done.") as server:
        assert (await cli("run", "-p", "the task")).out == "Done.\n"
        assert (await cli("run", "the task", "--print")).out == "Done.\n"
    assert all("the task" in body.decode() for body in server.bodies)


COMMAND_LINES = (
    ("--dangerously-skip-permissions fix", "--approve auto"),
    ("fix --yolo", "--approve auto"),
    ("-y fix", "--approve auto"),
    ("--permission-mode plan fix", "--mode plan"),
    ("--permission-mode=acceptEdits fix", "--approve"),
    ("-m gpt-5 fix", "--model PROVIDER/NAME"),
    ("fix --message-file x.txt", "hilum run - < FILE"),
    ("--add-dir ../other fix", "--workspace DIR"),
    ("-r fix", "--resume [ID]"),
    ("--max-budget-usd 3 fix", "scheduler.cost_limit"),
    ("--debug fix", "hilum sessions show ID"),
    ("--version", "hilum --version"),
    ("--allowedTools Bash fix", "hilum permissions allow"),
    ("--append-system-prompt x fix", "AGENTS.md"),
    ("--no-auto-commits fix", "no commits on its own"),
    ("--unknown --yes fix", "--approve auto"),
)


def test_an_option_of_another_agent_is_explained():
    """Wherever it stands, with or without a value."""
    wrong = []
    for line, expected in COMMAND_LINES:
        try:
            parse(shlex.split(line))
            wrong.append((line, "accepted"))
        except UsageError as error:
            option = next(word for word in line.split() if word.partition("=")[0] in error.message)
            is_named = error.message == f"hilum run has no option {option.partition('=')[0]}."
            if not is_named or expected not in error.hint:
                wrong.append((line, error.message, error.hint))
    assert wrong == []


def test_the_table_names_options_and_commands_that_exist():
    """No option of hilum run is in it, and each that a text names is one."""
    known = {option for action in make_parser()._actions for option in action.option_strings}
    # Options of other commands, which the texts name together with the command.
    known |= {"--upgrade", "--version"}
    wrong = []
    for option, advice in FOREIGN_OPTIONS.items():
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", advice))
        if option in known - {"--upgrade", "--version"} or named - known:
            wrong.append((option, advice))
    assert wrong == []


def test_other_commands_do_not_explain_options_of_agents():
    """There, the same letters may mean something else."""
    with pytest.raises(UsageError, match="Unrecognized arguments: --yolo"):
        Parser("hilum other").parse_args(["--yolo"])


def test_an_option_that_a_command_has_is_never_foreign():
    """A face may have more options than hilum run."""
    parser = Parser("hilum chat", foreign=True)
    parser.add_argument("--debug", action="store_true")
    assert parser.parse_args(["--debug"]).debug
    with pytest.raises(UsageError, match="hilum chat has no option --yolo"):
        parser.parse_args(["--debug", "--yolo"])
