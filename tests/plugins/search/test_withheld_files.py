"""A search shows no line of a file that ``read_file`` would need approval for, or be denied, and
says how many it left out.
"""

import json

import hilum_files
import hilum_guard
import hilum_search
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.testing import say, use
from hilum_search import find_mentions

PLUGINS = (hilum_guard, hilum_files, hilum_search)
FILES = {
    "secrets/k.md": "needle one\n", "secrets/deep/n.txt": "needle two\n", ".env": "KEY=needle three\n",
    "src/a.py": "needle = 4\n", "id_rsa": "needle five\n", ".env.example": "KEY=needle six\n",
    "private/x.txt": "nothing here\n",
}  # fmt: skip


@pytest.fixture
async def kit(bench):
    """A session with the guard."""
    return await bench(*PLUGINS, approve="auto", files=FILES, settings={"search.timeout": 60.0})


@pytest.fixture
def answered():
    """Has a tool called, says yes to the approval that is asked for it, and gives the result."""

    async def answered(kit, name, **arguments):
        kit.model.next(use(name, **arguments), say("Then so."))
        last = kit.session.journal.last
        run = await kit.start("x")
        kit.session.answer((await kit.wait_for(ApprovalAsked, after=last)).id, True)
        with kit.guard():
            await run.wait()
        return kit.results[-1]

    return answered


def user_rules(kit, **lists):
    """Write the user's rules."""
    lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in lists.items()]
    (kit.folder / "config" / "permissions.toml").write_text("".join(lines))


async def test_files_of_secrets_are_left_out_and_counted(kit):
    """By name; examples stay."""
    result = await kit.call("search_files", pattern="needle")
    assert "three" not in result.text
    assert "five" not in result.text
    assert "needle = 4" in result.text
    assert "six" in result.text
    assert "2 files were left out" in result.text
    assert "name one in path" in result.text
    assert result.data["left_out"] == 2


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("effect", ["ask", "deny"])
@pytest.mark.parametrize(
    "rule", ["read_file(secrets/**)", "read(secrets/**)", "read_file(/secrets/)"]
)
async def test_what_a_rule_keeps_from_being_read_is_left_out(kit, effect, rule):
    """Whatever the search: everywhere, in the folder, by a glob, in lines around a match."""
    user_rules(kit, **{effect: [rule]})
    everywhere = [
        {},
        {"glob": "secrets/**"},
        {"glob": "*.md"},
        {"include_ignored": True},
        {"context": 20},
    ]
    for arguments in everywhere:
        result = await kit.call("search_files", pattern="needle", **arguments)
        assert "needle one" not in result.text, arguments
        assert "needle two" not in result.text
        if arguments.get("glob") == "secrets/**":
            assert result.data["left_out"] == 2


async def test_how_many_are_left_out_does_not_tell_what_is_in_them(kit):
    """Otherwise a model could guess a secret letter by letter."""
    hit = await kit.call("search_files", pattern="KEY=needle three")
    miss = await kit.call("search_files", pattern="KEY=needle thrxe")
    assert hit.data["left_out"] == miss.data["left_out"] == 2
    assert hit.text == miss.text
    assert (hit.data["matches"], hit.data["searched"]) == (
        miss.data["matches"],
        miss.data["searched"],
    )


async def test_a_file_that_is_named_is_searched_after_a_yes(kit, answered):
    """The user saw its name."""
    assert "three" in (await answered(kit, "search_files", pattern="needle", path=".env")).text
    user_rules(kit, ask=["read_file(secrets/**)"])
    assert (
        "one" in (await answered(kit, "search_files", pattern="needle", path="secrets/k.md")).text
    )
    assert len(kit.of(ApprovalAsked)) == 2


async def test_a_file_that_is_named_and_denied_is_denied(kit):
    """By the rule about reading it."""
    user_rules(kit, deny=["read_file(secrets/**)"])
    assert (await kit.call("search_files", pattern="needle", path="secrets/k.md")).code == E_DENIED


async def test_what_a_rule_allows_by_name_is_searched(kit):
    """As `read_file` reads it."""
    user_rules(kit, allow=["read_file(.env)"])
    result = await kit.call("search_files", pattern="needle")
    assert "three" in result.text
    assert result.data["left_out"] == 1


async def test_mentions_leave_the_same_files_out(kit):
    """They are shown to a model as well."""
    user_rules(kit, deny=["read_file(secrets/**)"])
    await kit.call("search_files", pattern="needle")
    paths = {mention.path for mention in await find_mentions(kit.session, ["needle"], seconds=20)}
    assert paths == {"src/a.py", ".env.example"}


async def test_without_the_guard_nothing_is_left_out(bench):
    """Nobody asks then, either."""
    kit = await bench(hilum_files, hilum_search, approve="auto", files=FILES)
    result = await kit.call("search_files", pattern="needle")
    assert "three" in result.text
    assert "left out" not in result.text
