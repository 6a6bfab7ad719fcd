"""What must be done before a final answer: once refused with the sentence, then let through."""

from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
from hilum.events import PluginEvent
from hilum.testing import Bench, open_bench, use

RULES = """\
- Check your work.
  enforce: require command sh check.sh before answer
"""
LOG = """\
- Every change is in the log.
  enforce: require write CHANGES.md after write src/** before answer
"""
REFUSED = "“Check your work.” (AGENTS.md:1) wants the command `sh check.sh` to succeed"
UNLOGGED = "“Every change is in the log.” (AGENTS.md:1) wants writing CHANGES.md together"


def open_house(rules: str, answers: list[Any]) -> Any:
    return open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files={"AGENTS.md": rules, "check.sh": "test ! -e broken\n", "a.txt": "a\n"},
        settings={"guard.unsandboxed": "run"},
        answers=answers,
    )


def write(path: str = "b.txt", content: str = "b\n") -> Any:
    return use("write_file", path=path, content=content)


def check() -> Any:
    return use("run_terminal_cmd", command="sh check.sh")


def told(kit: Bench) -> list[str]:
    """What the user is told about work that was not done."""
    return [each.data["say"] for each in kit.of(PluginEvent) if each.name == "rules.not_done"]


def refusals(kit: Bench, text: str) -> int:
    """How many of the requests to the model contain a refusal that the one before did not."""
    counts = [str(request.messages).count(text) for request in kit.requests]
    return max(counts, default=0)


async def test_an_answer_waits_until_the_command_has_succeeded() -> None:
    answers = [write(), "Done.", check(), "Done and checked."]
    async with open_house(RULES, answers) as kit:
        ended = await kit.run("Change it.")
        assert (ended.state, ended.text) == ("completed", "Done and checked.")
        assert refusals(kit, REFUSED) == 1
        assert told(kit) == []


async def test_who_has_checked_or_changed_nothing_may_answer() -> None:
    answers = ["Nothing to do.", write(), check(), "Done.", "It is a text."]
    async with open_house(RULES, answers) as kit:
        for prompt in ("Look.", "Change it.", "What is it?"):
            assert (await kit.run(prompt)).state == "completed"
        assert refusals(kit, REFUSED) == 0


async def test_a_second_answer_is_let_through_and_the_user_is_told_once() -> None:
    answers = [write(), "Done.", "It cannot run here.", "It is a text."]
    answers += [write(content="c"), "Done.", "No."]
    async with open_house(RULES, answers) as kit:
        ended = await kit.run("Change it.")
        assert (ended.state, ended.text) == ("completed", "It cannot run here.")
        (note,) = told(kit)
        assert note.splitlines()[1] == "AGENTS.md:1: Check your work."
        # A question about the same change is answered at once.
        assert (await kit.run("What is it?")).text == "It is a text."
        assert refusals(kit, REFUSED) == 1
        # The next change is checked again.
        assert (await kit.run("Once more.")).text == "No."
        assert refusals(kit, REFUSED) == 2
        assert len(told(kit)) == 2


async def test_a_command_that_fails_has_not_run() -> None:
    answers = [
        write("broken"),
        check(),
        "Done.",
        use("delete_file", path="broken"),
        check(),
        "Now.",
    ]
    async with open_house(RULES, answers) as kit:
        assert (await kit.run("Change it.")).text == "Now."
        assert refusals(kit, REFUSED) == 1


async def test_only_the_named_files_make_a_command_necessary() -> None:
    rules = RULES.replace("before", "after write src/** before")
    answers = [
        write(),
        "Done.",
        write("src/a"),
        check(),
        write(content="c"),
        "Done.",
        write("src/a", "d"),
        "?",
        "!",
    ]
    async with open_house(rules, answers) as kit:
        assert (await kit.run("Change it.")).text == "Done."
        assert (await kit.run("Change it.")).text == "Done."
        assert refusals(kit, "wants the command") == 0
        assert (await kit.run("Change it.")).text == "!"
        assert refusals(kit, "wants the command") == 1


async def test_files_that_belong_together_change_together() -> None:
    answers = [
        *(write("src/a"), "Done.", write("CHANGES.md"), "Logged."),
        *(write("CHANGES.md", "c"), write("src/a", "c"), "Done."),
        *(write(content="d"), "Done."),
    ]
    async with open_house(LOG, answers) as kit:
        assert (await kit.run("Change it.")).text == "Logged."
        assert refusals(kit, UNLOGGED) == 1
        # The order does not matter, and other files need no entry.
        assert (await kit.run("Change it.")).text == "Done."
        assert (await kit.run("Change a text.")).text == "Done."
        assert refusals(kit, UNLOGGED) == 1


async def test_files_that_belong_together_are_committed_together() -> None:
    rules = LOG.replace("before answer", "before git commit")
    async with open_house(rules, []) as kit:
        commit = {"command": "git commit -m x", "timeout": 20}
        refused = "“Every change is in the log.” (AGENTS.md:1) forbids it"
        assert refused not in (await kit.call("run_terminal_cmd", **commit)).text
        await kit.call("write_file", path="src/a", content="b")
        assert refused in (await kit.call("run_terminal_cmd", **commit)).text
        await kit.call("write_file", path="CHANGES.md", content="b")
        assert refused not in (await kit.call("run_terminal_cmd", **commit)).text
