"""What several runs of ``hilum rules compile`` decide at the same time."""

from pathlib import Path
from threading import Barrier, Thread

import pytest
from hilum_rules import RulesSettings, open_store
from hilum_rules.lock_file import parse_lock
from hilum_rules.rule_store import RuleStore
from hilum_rules_compile.decisions import Decision, Item, sign
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
