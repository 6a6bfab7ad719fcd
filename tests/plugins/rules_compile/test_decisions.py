"""What several runs of ``hilum rules compile`` decide at the same time."""

import json
import re
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hilum import UsageError
from hilum_rules import RulesSettings, open_store
from hilum_rules.command import main as list_rules
from hilum_rules.lock_file import parse_lock
from hilum_rules.rule_store import RuleStore
from hilum_rules.signed_rules import hash_rule
from hilum_rules_compile.compile_command import main as compile_rules
from hilum_rules_compile.decisions import Decision, Item, sign
from hilum_rules_compile.examples import Example
from hilum_rules_compile.pointing_out import describe_lock_changes
from hilum_rules_compile.proposal import Proposal, Verified
from hilum_rules_compile.proposal_cache import keep_proposals, read_proposals

COUNT = 8


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with binding sentences that no plain form expresses."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    sentences = [f"- Hands off what must come from generator {n}.\n" for n in range(COUNT)]
    (root / "AGENTS.md").write_text("".join(sentences))
    return root


def open_rules(root: Path) -> tuple[RuleStore, list[Item]]:
    store = open_store(root, RulesSettings(), "main")
    return store, [Item(*each) for each in store.snapshot.numbered()]


def decided(root: Path) -> dict[str, str]:
    """The decisions in the lock, by the last word of their sentences."""
    path = root / ".hilum" / "rules.lock"
    lock = parse_lock(path.read_text(), path, "rules.lock")
    assert not lock.mistakes
    return {
        entry.sentence.split()[-1]: entry.advice or "".join(entry.enforce) for entry in lock.entries
    }


def test_the_first_decision_about_a_sentence_is_kept(root: Path) -> None:
    """Another run, which has loaded the rules before, adds only what is still open."""
    first, first_items = open_rules(root)
    second, second_items = open_rules(root)
    assert sign(first, [Decision(first_items[0], ("deny write a",))])
    late = [
        Decision(second_items[0], ("deny write b",)),
        Decision(second_items[1], advice="a judgement"),
    ]
    assert sign(second, late) == late[1:]
    assert decided(root) == {"0.": "deny write a", "1.": "a judgement"}
    assert second.snapshot.bundle.rules[0].check is not None


def test_an_entry_that_was_edited_by_hand_outlives_other_decisions(root: Path) -> None:
    """It still restricts; only entries without a sentence are removed."""
    store, items = open_rules(root)
    sign(store, [Decision(items[0], ("deny write a",)), Decision(items[1], ("deny write b",))])
    lock = root / ".hilum" / "rules.lock"
    (root / "AGENTS.md").write_text((root / "AGENTS.md").read_text().replace("generator 1", "us 1"))
    first = lock.read_text().index('hash = "') + len('hash = "')
    lock.write_text(f"{lock.read_text()[:first]}00{lock.read_text()[first + 2 :]}")
    store, items = open_rules(root)
    sign(store, [Decision(items[2], advice="a judgement")])
    assert decided(root) == {"0.": "deny write a", "2.": "a judgement"}


def test_decisions_at_the_same_moment_are_all_stored(root: Path) -> None:
    """Each run reads the lock again before it writes, and no other writes in between."""
    barrier = Barrier(COUNT)
    runs = [open_rules(root) for _ in range(COUNT)]

    def decide(number: int) -> None:
        store, items = runs[number]
        barrier.wait()
        sign(store, [Decision(items[number], (f"deny write {number}",))])

    threads = [Thread(target=decide, args=(number,)) for number in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert decided(root) == {f"{number}.": f"deny write {number}" for number in range(COUNT)}


def test_proposals_at_the_same_moment_are_all_kept(root: Path) -> None:
    """Two models may be asked at the same time."""
    barrier = Barrier(COUNT)

    def keep(number: int) -> None:
        barrier.wait()
        keep_proposals(root, {str(number): Verified(Proposal(str(number), advice="why"))})

    threads = [Thread(target=keep, args=(number,)) for number in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read_proposals(root)) == {str(number) for number in range(COUNT)}


# --- locks that are not as they were signed -------------------------------------------------------


def say_at_start(root: Path) -> str:
    """What a session that begins now says about the locks."""
    return describe_lock_changes(open_rules(root)[0])


def list_lost(root: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    """The lines of the sentences whose signed checks `hilum rules` reports as lost."""
    assert list_rules(["-C", str(root), "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert all(set(each) == {"path", "line", "message", "fatal"} for each in problems)
    messages = "\n".join(each["message"] for each in problems)
    return [int(line) for line in re.findall(r"signed for AGENTS.md:(\d+) is not", messages)]


def test_a_signed_check_that_is_gone_is_reported_with_the_next_step(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock may be emptied or deleted; other sentences and signatures are unaffected."""
    store, items = open_rules(root)
    sign(store, [Decision(items[0], ("deny write a",)), Decision(items[1], ("deny write b",))])
    lock = root / ".hilum" / "rules.lock"
    signed = lock.read_text()
    assert say_at_start(root) == ""
    lock.write_text("")
    said = say_at_start(root)
    assert "AGENTS.md:1 is not in this file any more: deny write a." in said
    assert "`hilum rules compile`" in said
    assert said.endswith("`hilum rules` lists 1 more.")
    lock.unlink()
    assert list_lost(root, capsys) == [1, 2]
    lock.write_text(signed)
    assert list_lost(root, capsys) == []
    assert say_at_start(root) == ""


def test_a_check_that_was_withdrawn_or_whose_sentence_is_gone_is_not_missed(root: Path) -> None:
    """Only a check that nobody has decided against is lost."""
    store, items = open_rules(root)
    sign(store, [Decision(items[0], ("deny write a",)), Decision(items[1], ("deny write b",))])
    store, items = open_rules(root)
    sign(store, [Decision(items[0], advice="it stays advice", withdraws=True)])
    (root / ".hilum" / "rules.lock").unlink()
    (root / "AGENTS.md").write_text((root / "AGENTS.md").read_text().replace("generator 1", "us"))
    assert say_at_start(root) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("deny write a", "deny write other", "edited by hand, and holds as it is"),
        ("deny write a", "allow write a", "edited by hand"),
        ("[[rule]]", "<<<<<<< ours\n[[rule]]", "A merge conflict"),
        ("enforce = [", "enforce = = [", "An entry cannot be read"),
    ],
)
def test_a_lock_that_was_changed_by_hand_is_reported_at_the_start(
    root: Path, before: str, after: str, said: str
) -> None:
    store, items = open_rules(root)
    sign(store, [Decision(items[0], ("deny write a",))])
    lock = root / ".hilum" / "rules.lock"
    lock.write_text(lock.read_text().replace(before, after))
    assert said in say_at_start(root)


# --- signing by number ----------------------------------------------------------------------------


def propose(root: Path, enforce: str) -> None:
    """Keep a proposal for the first sentence, with examples that fit it."""
    example = Example("write", "sdk/a"), Example("read", "README.md")
    _, items = open_rules(root)
    name = hash_rule(items[0].rule)
    proposal = Proposal(name, (enforce,), "", (example[0],), (example[1],))
    keep_proposals(root, {name: Verified(proposal)})


def test_a_check_with_a_warning_is_signed_by_number_only_in_spite_of_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who signs by number may not have read that the check stops every agent."""
    propose(root, "deny write **")
    accept = ["-C", str(root), "--accept", "1.1"]
    with pytest.raises(UsageError, match="every file that an agent writes") as caught:
        compile_rules(accept)
    assert "--despite-warnings" in caught.value.hint
    assert not (root / ".hilum" / "rules.lock").exists()
    assert compile_rules([*accept, "--despite-warnings"]) == 0
    assert decided(root) == {"0.": "deny write **"}
    assert "Note: It concerns every file" in capsys.readouterr().out


def test_a_check_without_a_warning_is_signed_by_number_alone(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    propose(root, "deny write sdk/**")
    assert compile_rules(["-C", str(root), "--accept", "1.1"]) == 0
    assert decided(root) == {"0.": "deny write sdk/**"}
    assert "Note" not in capsys.readouterr().out


def test_the_users_own_lock_is_watched_as_well(root: Path, tmp_path: Path) -> None:
    """Its checks hold in all projects, so another project reports the loss, too."""
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    (config / "AGENTS.md").write_text("- My notes in `notes/` are mine alone.\n")
    store, items = open_rules(root)
    (own,) = [item for item in items if item.file.origin == "user"]
    assert sign(store, [Decision(own, ("deny write notes/**",))])
    assert say_at_start(root) == ""
    (config / "rules.lock").write_text("")
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    for folder in (root, other):
        assert "is not in this file any more: deny write notes/**" in say_at_start(folder)
