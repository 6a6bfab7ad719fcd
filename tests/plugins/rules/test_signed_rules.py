"""``rules.lock``: signed checks are read, hold, are reported when they no longer fit, and only restrict."""

import os
import random
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum import Profile
from hilum.events import CallDone, Compacted, PluginEvent
from hilum.testing import Bench, ScriptedModel, open_bench, say, use
from hilum_rules.lock_file import Entry, parse_lock
from hilum_rules.rule import Rule
from hilum_rules.rule_store import RuleStore
from hilum_rules.signed_rules import Locks, hash_rule
from hilum_rules_compile.lock_writing import format_lock, make_entry, replace_entries
from hilum_rules_compile.undecided import find_undecided
from hypothesis import example, given
from hypothesis import strategies as st

Put = Callable[..., None]
Current = Callable[..., RuleStore]
SENTENCE = "The client in `sdk/` must come out of the generator, so hands off."
RULES = f"# House\n\n- {SENTENCE}\n- Always write small functions.\n"
LOCK = ".hilum/rules.lock"
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def lock_for(store: RuleStore, *decisions: tuple[str, list[str], str]) -> str:
    """The text of a lock: parts of sentences, each with its checks or why it stays advice."""
    locks = Locks.read(store.paths)
    entries = []
    for part, enforce, advice in decisions:
        file, rule = next(
            (file, rule) for _, file, rule in store.snapshot.numbered() if part in rule.sentence
        )
        name = locks.name_file(rule.path, file.origin)
        entries.append(make_entry(rule, name, enforce, advice).sign())
    return format_lock(entries)


def states(store: RuleStore) -> dict[str, Any]:
    return {
        rule.sentence: rule.check and rule.check.summary for _, _, rule in store.snapshot.numbered()
    }


# --- the file -------------------------------------------------------------------------------------


TWINS = [Entry("f", "", "s", "0" * 20, (check,)) for check in ("deny write a", "deny write b")]


@example(TWINS, random.Random(1))
@given(
    st.lists(
        st.builds(
            Entry,
            TEXT,
            TEXT,
            TEXT,
            st.text("0123456789abcdef", min_size=20, max_size=20),
            st.lists(TEXT, max_size=3).map(tuple),
            st.just(""),
        ),
        max_size=6,
    ),
    st.randoms(),
)
def test_what_is_written_is_read_and_does_not_depend_on_the_order(
    entries: list[Entry], randomly: random.Random
) -> None:
    signed = [
        (
            entry if entry.enforce else make_entry(Rule("", "", "", "x", "", 1), "f", (), "why")
        ).sign()  # type: ignore[arg-type]
        for entry in entries
    ]
    text = format_lock(signed)
    lock = parse_lock(text, Path("x"), "x")
    assert not lock.mistakes
    assert all(entry.is_signed for entry in lock.entries)
    assert sorted(entry.checksum for entry in lock.entries) == sorted(
        entry.checksum for entry in signed
    )
    randomly.shuffle(signed)
    assert format_lock(signed) == text
    assert format_lock(reversed(signed)) == text


def test_signing_replaces_the_entries_of_its_sentence_only() -> None:
    lock = parse_lock(format_lock(entry.sign() for entry in TWINS), Path("x"), "x")
    other = Entry("f", "", "t", "1" * 20, ("deny write c",))
    assert [each.enforce for each in replace_entries(lock, [other]).entries] == [
        ("deny write a",),
        ("deny write b",),
        ("deny write c",),
    ]
    new = Entry("f", "", "s", "0" * 20, (), "taste")
    assert [each.advice for each in replace_entries(lock, [new]).entries] == ["taste"]


@given(st.text(max_size=300), st.integers(0, 400))
def test_a_damaged_file_is_never_an_exception(noise: str, place: int) -> None:
    rule = Rule("i", "", "S", SENTENCE, "AGENTS.md", 3)  # type: ignore[arg-type]
    text = format_lock([make_entry(rule, "AGENTS.md", ["deny write sdk/**"]).sign()])
    lock = parse_lock(text[:place] + noise + text[place:], Path("x"), "x")
    assert all(line >= 0 for line, _ in lock.mistakes)


# --- applied to rules -----------------------------------------------------------------------------


def test_a_signed_check_enforces_its_sentence_and_advice_is_not_asked_again(
    put: Put, current: Current
) -> None:

    put({"AGENTS.md": RULES})
    store = current()
    assert [rule.line for rule in find_undecided(store.snapshot.files)] == [3, 4]
    put(
        {
            LOCK: lock_for(
                store,
                ("hands off", ["deny write sdk/**"], ""),
                ("small functions", [], "a judgement"),
            )
        }
    )
    assert store.refresh()
    assert states(store)[SENTENCE] == "denies writing sdk/**"
    assert [rule.why for rule in store.snapshot.bundle.rules] == [
        "signed in .hilum/rules.lock: denies writing sdk/**",
        "advice: a judgement",
    ]
    assert not list(find_undecided(store.snapshot.files))
    assert not store.snapshot.problems


@pytest.mark.parametrize(
    "changed",
    [
        RULES.replace("so hands off", "so be careful with it, and hands off"),
        RULES.replace("# House", "# When you deploy"),
    ],
)
def test_a_sentence_that_changed_is_asked_about_again(
    put: Put, current: Current, changed: str
) -> None:

    put({"AGENTS.md": RULES})
    store = current()
    put({LOCK: lock_for(store, ("hands off", ["deny write sdk/**"], "")), "AGENTS.md": changed})
    store.load()
    assert all(rule.check is None for rule in store.snapshot.bundle.rules)
    assert any("hands off" in rule.sentence for rule in find_undecided(store.snapshot.files))
    (problem,) = store.snapshot.problems
    assert (problem.path, problem.line) == (LOCK, 4)
    assert "no longer in AGENTS.md" in problem.message


@pytest.mark.parametrize(
    ("before", "after", "summary", "told"),
    [
        # A weaker, a stronger and a malformed check: what is there holds, and is reported.
        ("sdk/**", "sdk/gen/**", "denies writing sdk/gen/**", "edited by hand"),
        ("deny write sdk", "deny wirte sdk", "denies writing sdk/**", "cannot be read"),
        ("deny write sdk", "allow write sdk", "denies writing sdk/**", "neither deny"),
        ('hash = "', 'hash = "0', "denies writing sdk/**", "edited by hand"),
    ],
)
def test_an_entry_that_was_edited_by_hand_is_reported_and_restricts(
    put: Put, current: Current, before: str, after: str, summary: str, told: str
) -> None:

    put({"AGENTS.md": RULES})
    store = current()
    text = lock_for(store, ("hands off", ["deny write sdk/**"], ""))
    assert before in text
    put({LOCK: text.replace(before, after)})
    store.load()
    assert states(store)[SENTENCE] == summary
    assert any(told in problem.message for problem in store.snapshot.problems)
    assert {(problem.path, problem.line) for problem in store.snapshot.problems} == {(LOCK, 4)}
    assert all(rule.sentence != SENTENCE for rule in find_undecided(store.snapshot.files))


def test_advice_that_nobody_signed_hides_no_sentence(put: Put, current: Current) -> None:

    put({"AGENTS.md": RULES})
    store = current()
    text = lock_for(store, ("hands off", [], "It says so."))
    put({LOCK: text.replace("It says so.", "Trust me.")})
    store.load()
    assert any(rule.sentence == SENTENCE for rule in find_undecided(store.snapshot.files))


def test_advice_never_lifts_a_check(put: Put, current: Current) -> None:
    put({"AGENTS.md": "# Never\n\n- Never edit files in `vendor/`.\n"})
    store = current()
    put({LOCK: lock_for(store, ("vendor", [], "It does not hold."))})
    store.load()
    assert store.snapshot.bundle.rules[0].check is not None


def test_a_part_that_a_check_leaves_out_is_asked_about_until_it_is_decided(
    put: Put, current: Current
) -> None:
    put({"AGENTS.md": "- Never use `grep` or `find`, use `rg` or `fd`.\n"})
    store = current()
    assert [rule.line for rule in find_undecided(store.snapshot.files)] == [1]
    own = store.snapshot.bundle.rules[0].check
    put({LOCK: lock_for(store, ("grep", [], "Searching with it is fine."))})
    store.load()
    assert not list(find_undecided(store.snapshot.files))
    assert store.snapshot.bundle.rules[0].check == own
    put({LOCK: lock_for(store, ("grep", ["deny command find"], ""))})
    store.load()
    assert not list(find_undecided(store.snapshot.files))
    assert str(store.snapshot.bundle.rules[0].check.summary).count("`find`") == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("sentence = ", "sentence = = "),
        lambda text: text.replace("hash = ", "mood = "),
        lambda text: text.replace(",\n]\n", ",\n"),
        lambda text: text.replace("[[rule]]\n", '[[rule]]\nadvice = "x"\n'),
    ],
)
def test_a_broken_entry_fails_closed_and_costs_no_other(
    put: Put, current: Current, damage: Callable[[str], str]
) -> None:
    put({"AGENTS.md": RULES})
    store = current()
    good = lock_for(store, ("small functions", ["deny write big/**"], ""))
    bad = lock_for(store, ("hands off", ["deny write sdk/**"], "")).partition("[[rule]]")[2]
    put({LOCK: good + damage("\n[[rule]]" + bad)})
    store.load()
    assert states(store)["Always write small functions."] == "denies writing big/**"
    assert states(store)["enforce: deny write sdk/**"] == "denies writing sdk/**"
    told = [problem for problem in store.snapshot.problems if "denied until" in problem.message]
    assert [(problem.path, problem.line) for problem in told] == [(LOCK, 14)]


def test_both_sides_of_a_merge_conflict_hold(put: Put, current: Current) -> None:
    put({"AGENTS.md": RULES})
    store = current()
    one = lock_for(store, ("hands off", ["deny write sdk/**"], ""))
    other = lock_for(store, ("small functions", ["deny write big/**"], "")).partition("[[rule]]")[2]
    put({LOCK: f"{one}<<<<<<< ours\n=======\n[[rule]]{other}>>>>>>> theirs\n"})
    store.load()
    assert list(states(store).values()) == ["denies writing sdk/**", "denies writing big/**"]
    assert sum("merge conflict" in problem.message for problem in store.snapshot.problems) == 3


def test_a_lock_that_is_a_link_out_of_the_project_is_not_read(
    put: Put, current: Current, root: Path, tmp_path: Path
) -> None:
    put({"AGENTS.md": RULES, ".hilum/x": ""})
    (tmp_path / "other").write_text("x")
    (root / LOCK).symlink_to(tmp_path / "other")
    store = current()
    (problem,) = store.snapshot.problems
    assert "outside the project" in problem.message
    assert "every change needs approval. Restore the file" in problem.message


@pytest.mark.parametrize(
    "data",
    [
        b"\0\xff garbage [[[",
        b"garbage",
        b"[[rule]]\nfile = ",
        b"#" * 2_000_001,
        None,
    ],
)
async def test_a_lock_that_cannot_be_read_fails_closed(tmp_path: Path, data: bytes | None) -> None:
    """Until it can be read again; ``None`` is a folder in its place."""
    files = signed_files(tmp_path)
    async with open_bench(hilum_rules, hilum_files, folder=tmp_path, files=files) as kit:
        lock = kit.session.workspace.root / LOCK
    good = lock.read_bytes()
    lock.unlink()
    if data is None:
        lock.mkdir()
    else:
        lock.write_bytes(data)
    async with open_bench(
        hilum_rules,
        hilum_files,
        hilum_guard,
        hilum_shell,
        folder=tmp_path,
        kind="headless",
        settings={"guard.unsandboxed": "run", "approve": "auto"},
    ) as kit:
        kit.session.attended = False
        for tool, arguments in (
            ("write_file", {"path": "src/a.ts", "content": "x"}),
            ("run_terminal_cmd", {"command": "python3 -c 'print(1)'"}),
        ):
            text = await call(kit, "main", tool, arguments)
            assert "signed checks cannot be read, so every change needs approval" in text
        assert "a line of text" in await call(kit, "main", "read_file", {"path": "long.md"})
        told = [event for event in kit.of(PluginEvent) if event.name == "rules.unreadable_lock"]
        assert [LOCK in event.data["say"] for event in told] == [True]
        lock.rmdir() if data is None else lock.unlink()
        lock.write_bytes(good)
        text = await call(kit, "main", "write_file", {"path": "src/a.ts", "content": "x"})
        assert "cannot be read" not in text
        text = await call(kit, "main", "write_file", {"path": "sdk/a.ts", "content": "x"})
        assert "The rule “The client" in text


def test_advice_that_cannot_be_read_closes_nothing(put: Put, current: Current) -> None:
    put({"AGENTS.md": RULES, LOCK: '[[rule]]\nadvice = "taste"\nmood = 1\n'})
    assert all(rule.check is None for rule in current().snapshot.bundle.rules)


def test_the_lock_of_a_repository_holds_in_its_folders(put: Put, current: Current) -> None:
    """And in a nested rules file, which is named as from the top."""
    put({"AGENTS.md": RULES, "sub/AGENTS.md": "- Hands off the `gen/` folder, always.\n"})
    store = current()
    store.touch(["sub/a.py"])
    put(
        {
            LOCK: lock_for(
                store,
                ("so hands off", ["deny write sdk/**"], ""),
                ("Hands off", ["deny write gen/**"], ""),
            )
        }
    )
    assert 'file = "sub/AGENTS.md"' in (store.paths.top / LOCK).read_text()
    for store in (current(), current("sub")):
        store.touch(["sub/a.py"])
        checks = [rule.check for _, _, rule in store.snapshot.numbered() if rule.check]
        assert len(checks) == 2
        assert not store.snapshot.problems


def test_the_users_own_rules_are_signed_in_a_lock_of_the_user(
    put: Put, current: Current, home: Path
) -> None:
    put({"config/AGENTS.md": "- My notes in `notes/` are mine alone.\n"}, home)
    store = current()
    put({"config/rules.lock": lock_for(store, ("mine alone", ["deny write notes/**"], ""))}, home)
    store.load()
    assert [rule.why for rule in store.snapshot.bundle.rules] == [
        "signed in ~/config/rules.lock: denies writing notes/**"
    ]
    # A project cannot decide about them.
    put({LOCK: (home / "config/rules.lock").read_text()})
    (home / "config/rules.lock").unlink()
    store.load()
    assert store.snapshot.bundle.rules[0].check is None


# --- in sessions ----------------------------------------------------------------------------------

FORBIDDEN = (
    ("write_file", {"path": "sdk/a.ts", "content": "x"}),
    ("write_file", {"path": "./src/../sdk/b.ts", "content": "x"}),
    ("run_terminal_cmd", {"command": "echo x > sdk/c.ts"}),
    ("run_terminal_cmd", {"command": "cd sdk && touch d.ts"}),
    ("run_terminal_cmd", {"command": "make -s ship"}),
    ("run_terminal_cmd", {"command": "sh -c 'make ship'"}),
)
HARMLESS = (
    ("read_file", {"path": "sdk/api.ts"}),
    ("write_file", {"path": "src/a.ts", "content": "x"}),
    ("run_terminal_cmd", {"command": "ls sdk"}),
    ("run_terminal_cmd", {"command": "echo make ship"}),
)


def signed_files(tmp_path: Path) -> dict[str, str]:
    """A project with signed checks, as files."""
    from hilum_rules.discovery import find_paths
    from hilum_rules.settings import RulesSettings

    root = tmp_path / "made"
    rules = RULES + "- Only the release manager ships, with the target `ship`.\n"
    (root / ".git").mkdir(parents=True)
    (root / "AGENTS.md").write_text(rules)
    store = RuleStore(find_paths(root, tmp_path / "none"), RulesSettings())
    store.load()
    lock = lock_for(
        store,
        ("hands off", ["deny write sdk/**"], ""),
        ("release manager", ["deny command make ship"], ""),
    )
    return {
        "AGENTS.md": rules,
        LOCK: lock,
        "sdk/api.ts": "x\n",
        "long.md": "a line of text\n" * 1500,
    }


def folder_of(kit: Bench) -> dict[str, str]:
    root = kit.session.workspace.root
    return {path.name: path.read_text() for path in (root / "sdk").iterdir()}


@pytest.mark.parametrize("seed", range(4))
async def test_signed_checks_hold_in_random_histories(tmp_path: Path, seed: int) -> None:
    """In the main agent, in a sub-agent, before and after compactions, in any order."""
    randomly = random.Random(seed)
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=signed_files(tmp_path),
        model=ScriptedModel(window=24_000),
        settings={"guard.sandbox": "off", "guard.unsandboxed": "run"},
    ) as kit:
        kit.session.add_agent(Profile("helper", "You help."))
        steps = [*FORBIDDEN, *HARMLESS, "compact", *randomly.choices(FORBIDDEN, k=3)]
        randomly.shuffle(steps)
        for step in steps:
            agent = randomly.choice(("main", "helper"))
            if step == "compact":
                before = len(kit.of(Compacted))
                while len(kit.of(Compacted)) == before:
                    await call(kit, "main", "read_file", {"path": "long.md"})
                continue
            text = await call(kit, agent, *step)
            assert ("The rule “" in text) is (step in FORBIDDEN), (agent, step, text)
        assert folder_of(kit) == {"api.ts": "x\n"}


async def call(kit: Bench, agent: str, tool: str, arguments: dict[str, Any]) -> str:
    """Let an agent make one call; gives the result."""
    assert isinstance(kit.model, ScriptedModel)
    seen = len(kit.events)
    kit.model.next(use(tool, **arguments), say("Done."))
    await kit.run("Go.", agent=agent)
    return next(event.result.text for event in kit.events[seen:] if isinstance(event, CallDone))


async def test_an_agent_needs_approval_to_write_the_lock(tmp_path: Path) -> None:
    """Also with ``approve = auto``, and to run the command that signs."""
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=signed_files(tmp_path),
        settings={"approve": "auto", "guard.unsandboxed": "run"},
    ) as kit:
        before = (kit.session.workspace.root / LOCK).read_text()
        kit.session.attended = False
        for tool, arguments, expected in (
            ("write_file", {"path": LOCK, "content": ""}, LOCK),
            ("run_terminal_cmd", {"command": f"rm {LOCK}"}, LOCK),
            (
                "run_terminal_cmd",
                {"command": "hilum rules compile --accept 1.1"},
                "only the user may run hilum rules compile",
            ),
        ):
            text = await call(kit, "main", tool, arguments)
            assert expected in text, text
        assert (kit.session.workspace.root / LOCK).read_text() == before


async def test_without_the_guard_the_rules_protect_the_lock(tmp_path: Path) -> None:
    async with open_bench(
        hilum_files, hilum_rules, files=signed_files(tmp_path), settings={"approve": "auto"}
    ) as kit:
        kit.session.attended = False
        text = await call(kit, "main", "write_file", {"path": LOCK, "content": ""})
        assert "rules that are enforced" in text


def test_a_lock_needs_no_trust(root: Path, put: Put) -> None:
    """It can only restrict."""
    from hilum.trust.files import list_files

    put({LOCK: "x", ".hilum/plugins/a.py": ""})
    assert list_files(root) == [".hilum/plugins/a.py"]


def test_the_hash_is_of_the_sentence_and_its_place() -> None:
    rules = [
        Rule("", "", section, text, "A.md", line, PurePosixPath("."), lead)  # type: ignore[arg-type]
        for section, text, line, lead in (
            ("S", "x", 1, ""),
            ("S", "x", 9, ""),
            ("T", "x", 1, ""),
            ("S", "y", 1, ""),
            ("S", "x", 1, "Never:"),
        )
    ]
    first, moved, *others = map(hash_rule, rules)
    assert first == moved
    assert len({first, *others}) == 4
    assert os.environ  # the hash does not depend on the machine
