"""What a session says at its start about sentences, and about locks that are not as they were signed."""

from pathlib import Path

import hilum_rules
import hilum_rules_compile
import pytest
from hilum.events import PluginEvent
from hilum.testing import Bench, open_bench
from hilum_rules import Rules, RulesSettings, open_store
from hilum_rules.signed_rules import hash_rule
from hilum_rules_compile.decisions import Decision, Item, sign
from hilum_rules_compile.proposal import Proposal, Verified
from hilum_rules_compile.proposal_cache import keep_proposals

RULES = (
    "# House\n\n- The client in `sdk/` must come out of the generator, so hands off.\n"
    "- Always write small functions.\n"
)
LOCK = ".hilum/rules.lock"
PLUGINS = (hilum_rules, hilum_rules_compile)


def said(kit: Bench, name: str) -> list[str]:
    return [event.data["say"] for event in kit.of(PluginEvent) if event.name == f"rules.{name}"]


async def sign_first(folder: Path, enforce: str = "deny write sdk/**") -> Path:
    """Sign a check for the first sentence of a project, as its user; return the lock."""
    async with open_bench(hilum_rules, folder=folder, files={"AGENTS.md": RULES}) as kit:
        root = kit.session.workspace.root
        store = open_store(root, RulesSettings(), "main")
        first = next(store.snapshot.numbered())
        assert sign(store, [Decision(Item(*first), (enforce,))])
    return root / LOCK


@pytest.mark.parametrize("kind", ["main", "headless"])
async def test_a_lock_that_was_edited_by_hand(tmp_path: Path, kind: str) -> None:
    lock = await sign_first(tmp_path)
    lock.write_text(lock.read_text().replace("sdk/**", "other/**"))
    async with open_bench(*PLUGINS, folder=tmp_path, kind=kind) as kit:
        (line,) = said(kit, "changed_lock")
    assert line.startswith(f"{LOCK}:")
    assert "edited by hand, and holds as it is. Restore it" in line


@pytest.mark.parametrize("kind", ["main", "headless"])
async def test_a_lock_that_has_lost_a_check(tmp_path: Path, kind: str) -> None:
    """Also if the file is gone."""
    lock = await sign_first(tmp_path)
    lock.unlink()
    async with open_bench(*PLUGINS, folder=tmp_path, kind=kind) as kit:
        (line,) = said(kit, "changed_lock")
    assert line.startswith(f"{LOCK}: The check that you signed for AGENTS.md:3 is not in this file")
    assert "deny write sdk/**" in line


async def test_a_check_is_missed_also_if_its_file_is_excluded(tmp_path: Path) -> None:
    """A rule keeps the file out of the prompt, and its other checks in force."""
    lock = await sign_first(tmp_path)
    lock.unlink()
    text = f"{RULES}- Stay out.\n  enforce: deny context AGENTS.md in main\n"
    (lock.parent.parent / "AGENTS.md").write_text(text)
    async with open_bench(*PLUGINS, folder=tmp_path) as kit:
        assert kit.session.plugin(Rules).refusal("AGENTS.md")
        (line,) = said(kit, "changed_lock")
    assert "AGENTS.md:3" in line


async def test_a_lock_that_cannot_be_read_is_reported_in_one_line(tmp_path: Path) -> None:
    lock = await sign_first(tmp_path)
    lock.write_text(lock.read_text().replace("deny write sdk/**", "deny").replace("enforce", "e"))
    async with open_bench(*PLUGINS, folder=tmp_path) as kit:
        assert len(said(kit, "unreadable_lock")) == 1
        assert said(kit, "changed_lock") == []


async def test_a_lock_with_mistakes_in_a_project_without_rules(tmp_path: Path) -> None:
    files = {LOCK: "<<<<<<< ours\n"}
    async with open_bench(*PLUGINS, folder=tmp_path, files=files) as kit:
        (line,) = said(kit, "changed_lock")
    assert "A merge conflict" in line


async def test_a_lock_as_it_was_signed(tmp_path: Path) -> None:
    """Nothing is said, and neither in a session without rules."""
    await sign_first(tmp_path)
    async with open_bench(*PLUGINS, folder=tmp_path) as kit:
        assert said(kit, "changed_lock") == []
    async with open_bench(hilum_rules_compile, folder=tmp_path) as kit:
        assert not [event for event in kit.of(PluginEvent) if event.name.startswith("rules.")]


async def test_without_the_package_an_edited_lock_is_read_as_strictly(tmp_path: Path) -> None:
    """Nobody can sign, so nothing is pointed out, but the check holds and the problem is listed."""
    lock = await sign_first(tmp_path)
    lock.write_text(lock.read_text().replace("sdk/**", "other/**"))
    async with open_bench(hilum_rules, folder=tmp_path) as kit:
        assert said(kit, "changed_lock") == []
        snapshot = kit.session.plugin(Rules).snapshot
    assert ["edited by hand" in problem.message for problem in snapshot.problems] == [True]
    assert snapshot.bundle.rules[0].check.summary == "denies writing other/**"


async def test_new_binding_sentences_are_pointed_out_once(tmp_path: Path) -> None:
    """In one line at the start of a session, until there are others."""
    lines = []
    for rules in (RULES, RULES, RULES + "- Never be late.\n", "- Use tabs.\n"):
        async with open_bench(*PLUGINS, files={"AGENTS.md": rules}, folder=tmp_path) as kit:
            (kit.session.workspace.root / "AGENTS.md").write_text(rules)
            lines.append(said(kit, "undecided"))
    assert [len(texts) for texts in lines] == [1, 0, 1, 0]
    assert lines[0] == [
        "2 binding sentences in your rules files are not enforced: run hilum rules compile"
    ]


async def test_nobody_is_told_about_sentences_in_a_session_without_a_user(tmp_path: Path) -> None:
    files = {"AGENTS.md": RULES}
    async with open_bench(*PLUGINS, files=files, folder=tmp_path, kind="headless") as kit:
        assert said(kit, "undecided") == []


async def test_sentences_that_a_model_has_called_advice_are_not_pointed_out(tmp_path: Path) -> None:
    """The other ones are."""
    files = {"AGENTS.md": RULES}
    async with open_bench(hilum_rules, folder=tmp_path, files=files) as kit:
        store = open_store(kit.session.workspace.root, RulesSettings(), "main")
        first, second = (rule for rule in store.snapshot.bundle.rules if rule.path == "AGENTS.md")
        keep_proposals(
            store.paths.top,
            {
                hash_rule(first): Verified(
                    Proposal("1", ("deny write sdk/**",)), rejected="It is wrong."
                ),
                hash_rule(second): Verified(Proposal("2", advice="Small is a matter of taste.")),
            },
        )
    async with open_bench(*PLUGINS, folder=tmp_path) as kit:
        (line,) = said(kit, "undecided")
    assert line.startswith("1 binding sentence in your rules files is not enforced")
