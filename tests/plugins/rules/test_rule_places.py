"""Where rules are looked for, in which order, what they import, and what is in the way."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hilum_rules import Mode, discovery, load_rules, rule_store
from hilum_rules.discovery import RulesFinder
from hilum_rules.rule_store import RuleStore

Put, Read = Callable[..., None], Callable[..., RuleStore]


def order(current: RuleStore) -> list[str]:
    return [file.path for file in current.snapshot.files if file.rules]


def sentences(current: RuleStore) -> list[str]:
    return [rule.sentence for rule in current.snapshot.bundle.rules]


def told(current: RuleStore) -> list[str]:
    return [str(problem) for problem in current.snapshot.problems]


def test_everything_is_found_from_the_user_to_the_leaf(
    put: Put, current: Read, root: Path, home: Path
) -> None:
    put(
        {
            "config/AGENTS.md": "- u1",
            "config/rules/a.md": "- u2",
            ".codex/AGENTS.md": "- u3",
            ".claude/CLAUDE.md": "- u4",
        },
        home,
    )
    put({".gemini/GEMINI.md": "- u5", ".config/opencode/AGENTS.md": "- u6"}, home)
    names = [
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        ".claude/rules/x/r.md",
        "GEMINI.md",
        ".cursorrules",
        ".github/copilot-instructions.md",
        "CLAUDE.local.md",
    ]
    put({name: f"- {name}" for name in names})
    put({f"pkg/{name}": f"- pkg/{name}" for name in names})
    put(
        {
            ".cursor/rules/in/c.mdc": "---\nalwaysApply: true\n---\n- mdc",
            ".cursor/rules/f/RULE.md": "---\nalwaysApply: true\n---\n- f",
        }
    )
    put({".github/instructions/i.instructions.md": "---\napplyTo: '**'\n---\n- i"})
    found = order(current("pkg", text=["- set"]))
    assert found == [
        "~/config/AGENTS.md",
        "~/config/rules/a.md",
        "~/.codex/AGENTS.md",
        "~/.config/opencode/AGENTS.md",
        "~/.claude/CLAUDE.md",
        "~/.gemini/GEMINI.md",
        "settings: rules.text 1",
        "../AGENTS.md",
        "../CLAUDE.md",
        "../.claude/CLAUDE.md",
        "../.claude/rules/x/r.md",
        "../GEMINI.md",
        "../.cursorrules",
        "../.cursor/rules/f/RULE.md",
        "../.cursor/rules/in/c.mdc",
        "../.github/copilot-instructions.md",
        "../.github/instructions/i.instructions.md",
        "../CLAUDE.local.md",
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        ".claude/rules/x/r.md",
        "GEMINI.md",
        ".cursorrules",
        ".github/copilot-instructions.md",
        "CLAUDE.local.md",
    ]
    assert order(current("pkg", homes=False))[:2] == ["~/config/AGENTS.md", "~/config/rules/a.md"]
    assert "~/.codex/AGENTS.md" not in order(current("pkg", homes=False))


def test_an_override_stands_in_place_and_that_is_told(put: Put, current: Read) -> None:
    put({"AGENTS.md": "- plain", "AGENTS.override.md": "- instead"})
    rules = current()
    assert sentences(rules) == ["instead"]
    assert "AGENTS.md: Not read: AGENTS.override.md replaces it." in told(rules)


def test_the_same_text_stands_once(put: Put, current: Read, root: Path) -> None:
    put({"AGENTS.md": "- same\n", "CLAUDE.md": "-  same"})
    (root / "GEMINI.md").symlink_to("AGENTS.md")
    rules = current()
    assert sentences(rules) == ["same"]
    assert [line.split(":")[0] for line in told(rules)] == ["CLAUDE.md", "GEMINI.md"]


def test_the_same_text_in_two_subtrees_holds_in_both(put: Put, current: Read) -> None:
    put({"a/AGENTS.md": "- same\n", "b/AGENTS.md": "- same\n", "a/deep/AGENTS.md": "- same\n"})
    rules = current()
    rules.touch(["a/deep/x.py", "b/x.py"])
    assert [(rule.path, str(rule.folder)) for rule in rules.snapshot.bundle.rules] == [
        ("a/AGENTS.md", "a"),
        ("b/AGENTS.md", "b"),
    ]


def test_nested_folders_come_with_the_first_touch(put: Put, current: Read, root: Path) -> None:
    put(
        {
            "AGENTS.md": "- root",
            "a/AGENTS.md": "- a",
            "a/b/CLAUDE.md": "- b",
            "c/AGENTS.md": "- c",
            "a/b/x.py": "",
        }
    )
    put({"a/.cursor/rules/n.mdc": "---\nglobs: b/*.py\n---\n- n"})
    rules = current()
    assert sentences(rules) == ["root"]
    assert rules.touch(["a/b/x.py"])
    assert sentences(rules) == ["root", "a", "n", "b"]
    assert not rules.touch(["a/b/x.py", "a/b/missing.txt", "nowhere/x.py"])
    assert rules.touch(["c"])
    assert sentences(rules)[-1] == "c"


@pytest.mark.parametrize("name", ["AGENTS.md", "agents.md", ".cursorrules"])
def test_a_folder_without_rules_is_searched_again_only_for_their_names(
    put: Put, current: Read, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each edit changes its folder."""
    put({"a/b/x.py": ""})
    rules = current()
    rules.touch(["a/b/x.py"])
    searches: list[RulesFinder] = []
    begin = RulesFinder.__init__

    def count(self, paths):
        searches.append(self)
        begin(self, paths)

    monkeypatch.setattr(RulesFinder, "__init__", count)
    put({"a/b/x.py.new": "x = 1"})
    assert not rules.refresh()
    assert rules.is_surely_unchanged()
    assert not searches
    put({f"a/b/{name}": "- new"})
    assert not rules.is_surely_unchanged()
    rules.refresh()
    assert searches
    if name != "agents.md":  # which is a rules file on some file systems only
        assert sentences(rules) == ["new"]


@pytest.mark.parametrize("kept_out", ["~/.claude/CLAUDE.md", "CLAUDE.md"])
def test_a_project_does_not_keep_the_users_rules_out(
    put: Put, current: Read, home: Path, kept_out: str
) -> None:
    """Files of the project are kept out by its rules, those of the user only by the user's own."""
    put({".claude/CLAUDE.md": "## Safety\n- Never edit `keys.txt`."}, home)
    text = f"## Safety\n- Do not load `{kept_out}` in main sessions."
    put({"AGENTS.md": text})
    assert [file.path for file in current().snapshot.active] == ["~/.claude/CLAUDE.md", "AGENTS.md"]
    assert not told(current())
    mine = current(text=[text])
    (kept,) = (file for file in mine.snapshot.active if file.is_excluded)
    assert kept.path == "~/.claude/CLAUDE.md"
    assert [rule.sentence for rule in kept.rules] == ["denies writing keys.txt"]


def test_folders_without_rules_take_no_place_of_those_with_rules(
    put: Put, current: Read, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and whether the rules come before them, behind them, or later into
    one that was seen.
    """
    monkeypatch.setattr(rule_store, "MAX_FOLDERS", 20)
    for number in range(25):
        (root / f"plain{number}").mkdir()
    put({"early/AGENTS.md": "- Early.\n", "late/AGENTS.md": "- Late.\n"})
    rules = current()
    rules.touch(["early/x.py"])
    rules.touch([f"plain{number}/x.py" for number in range(25)])
    rules.touch(["late/x.py"])
    assert [rule.content for rule in rules.snapshot.bundle.rules] == ["Early.", "Late."]
    put({"plain0/AGENTS.md": "- Came later.\n"})
    rules.refresh()
    rules.touch(["plain0/x.py"])
    assert [rule.content for rule in rules.snapshot.bundle.rules] == [
        "Early.",
        "Late.",
        "Came later.",
    ]


@pytest.mark.parametrize(
    ("globs", "path", "plays"),
    [
        ("*.ts", "src/a.ts", True),
        ("**/*.{ts,tsx}", "a.tsx", True),
        ("src/**", "src/x/y", True),
        ("src/**", "lib/src.py", False),
        ("./src/*.py", "src/a.py", True),
        ("*.ts", "a.tsx", False),
        ("docs/", "docs/a.md", True),
    ],
)
def test_globs_bring_files_into_play(
    put: Put, current: Read, globs: str, path: str, plays: bool
) -> None:
    put({".cursor/rules/r.mdc": f"---\nglobs: {globs}\n---\n- r"})
    rules = current()
    assert rules.touch([path]) is plays
    assert bool(sentences(rules)) is plays


def test_globs_are_relative_to_the_folder_with_the_rules(put: Put, current: Read) -> None:
    put({".cursor/rules/r.mdc": "---\nglobs: pkg/src/*.py\n---\n- r", "pkg/src/a.py": ""})
    rules = current("pkg")
    assert rules.touch(["src/a.py"])


def test_files_are_named_by_the_user_or_read_by_the_model(put: Put, current: Read) -> None:
    put(
        {
            ".cursor/rules/in/manual.mdc": "---\n---\n- m",
            ".cursor/rules/agent.mdc": "---\ndescription: d\n---\n- a",
        }
    )
    rules = current()
    assert [file.mode for file in rules.snapshot.files] == [Mode.AGENT, Mode.MANUAL]
    assert not rules.name("mail me@manual.example and read manual.mdc")
    assert rules.name("Use @manual, please.")
    assert sentences(rules) == ["m"]
    assert rules.touch([".cursor/rules/agent.mdc"])
    assert sentences(rules) == ["a", "m"]


def test_settings_name_files_and_leave_some_out(put: Put, current: Read, home: Path) -> None:
    put({"docs/rules/a.md": "- a", "docs/rules/b.md": "- b", "CLAUDE.md": "- c"})
    put({"mine.md": "- mine"}, home)
    rules = current(files=["docs/rules/*.md", "~/mine.md", "missing.md"], skip=["CLAUDE.md"])
    assert sentences(rules) == ["a", "b", "mine"]
    assert any(line.startswith("missing.md: Not read") for line in told(rules))


def test_imports_stand_in_their_places_with_their_own_lines(put: Put, current: Read) -> None:
    put(
        {
            "AGENTS.md": "# T\n\n## Safety\n\n@docs/safe.md\n\n- after, see @docs/more.md\n",
            "docs/safe.md": "\n- careful\n\n@sub/deep.md",
        }
    )
    put({"docs/sub/deep.md": "## Style\n- deep", "docs/more.md": "more"})
    rules = current()
    assert [
        (rule.path, rule.line, rule.type.value[:4], rule.section, rule.sentence)
        for rule in rules.snapshot.bundle.rules
    ] == [
        ("docs/safe.md", 2, "hard", "T > Safety", "careful"),
        ("docs/sub/deep.md", 2, "hard", "T > Safety > Style", "deep"),
        ("AGENTS.md", 7, "hard", "T > Safety", "after, see @docs/more.md"),
        ("docs/more.md", 1, "hard", "T > Safety", "more"),
    ]
    assert not told(rules)


def test_a_line_that_is_an_import_is_no_part_of_the_rule_above_it(put: Put, current: Read) -> None:
    put(
        {
            "AGENTS.md": "- Short functions, see @more.md for why.\n@more.md\n",
            "more.md": "- Long ones hide mistakes.\n",
        }
    )
    assert sentences(current()) == [
        "Short functions, see @more.md for why.",
        "Long ones hide mistakes.",
    ]


@pytest.mark.parametrize(
    ("title", "item", "says"),
    [
        ("## Never", "Push to `main`", "`git push`"),
        ("**Ask first:**", "Running `npm publish`", "asks before the command `npm publish`"),
        (
            "## MEMORY.md - long-term memory",
            "**ONLY load in main session** (direct chats)",
            "MEMORY.md in shared, headless",
        ),
        (
            "## MEMORY.md - long-term memory",
            "**DO NOT load in shared contexts** (group chats)",
            "MEMORY.md in shared",
        ),
        ("## 禁止", "修改 `a.yaml`", "writing a.yaml"),
        ("## ❌ Never do", "Use `as any` type casting", "writing text"),
        ("## What NOT to do", "Commit keys, tokens, or `.env` files", "`git add * .env`"),
        ("### Stop and ask", "Pushing to `main` or merging a pull request", "asks before"),
        ("## Actions that require approval", "Installing packages", "asks before"),
        ("## Before opening a PR", "Make sure `make lint` passes", "`make lint`"),
        (
            "## Before committing",
            "`make lint` - checks the style",
            "before the command `make lint`",
        ),
        ("## Pre-PR Checklist", "Run `make test`", "`gh pr create`"),
        (
            "## Style",
            "Before pushing, run:\n  ```bash\n  make a && make b  # all\n  ```",
            "before the command `make b`",
        ),
        ("## Style", "Never run:\n  ```\n  make deploy\n  ```", "`make deploy`"),
    ],
)
def test_a_title_completes_what_stands_below_it(
    put: Put, current: Read, title: str, item: str, says: str
) -> None:
    put({"AGENTS.md": f"# Team\n\n{title}\n\n- {item}\n"})
    (rule,) = current().snapshot.bundle.rules
    assert rule.check is not None
    assert says in rule.why


@pytest.mark.parametrize(
    ("title", "item"),
    [
        ("Never mind", "Push to `main`"),
        ("Style of MEMORY.md and NOTES.md", "ONLY load in main session"),
        ("Memory", "ONLY load in main session"),
        ("Always", "Push to `main`"),
        ("Dos & don'ts", "Use `npm`"),
        ("Do / Don't", "Use `npm`"),
        ("Never", "✅ Use `npm`"),
        ("Don't", "Always use `npm run build`"),
        ("Before committing", "Run `make lint` (optional)"),
        ("Before committing", "Never run `make deploy`"),
        ("Before committing", "`make lint` - only if you changed code"),
        ("Before committing", "`make lint`, or ask"),
        ("Pre-PR Checklist", "Update `CHANGELOG.md`"),
        ("Style", "You may run:\n  ```bash\n  make deploy\n  ```"),
    ],
)
def test_another_title_completes_nothing(put: Put, current: Read, title: str, item: str) -> None:
    put({"AGENTS.md": f"# Team\n\n## {title}\n\n- {item}\n"})
    (rule,) = current().snapshot.bundle.rules
    assert rule.check is None


def test_a_title_completes_no_paragraph_after_its_list(put: Put, current: Read) -> None:
    put({"AGENTS.md": "**Do NOT**\n- edit `a.py`\n\nUse `npm`.\n\n## Never\n\nUse `yarn`.\n"})
    checks = [rule.check is not None for rule in current().snapshot.bundle.rules]
    assert checks == [True, False, False]


def test_a_cycle_of_imports_ends_and_is_told(put: Put, current: Read) -> None:
    put({"AGENTS.md": "- one\n\n@b.md\n", "b.md": "- two\n\n@AGENTS.md @b.md\n"})
    rules = current()
    assert sentences(rules) == ["one", "two", "@AGENTS.md @b.md"]
    assert [line.split(" is ")[0] for line in told(rules)] == [
        "b.md:3: @AGENTS.md",
        "b.md:3: @b.md",
    ]


def test_imports_go_five_deep(put: Put, current: Read) -> None:
    put({"AGENTS.md": "@1.md"} | {f"{n}.md": f"- rule {n}\n\n@{n + 1}.md" for n in range(1, 9)})
    rules = current()
    assert [s for s in sentences(rules) if s.startswith("rule")] == [
        f"rule {n}" for n in range(1, 6)
    ]
    assert any(
        "5.md:3: @6.md is not imported: the maximum import depth is 5." in line
        for line in told(rules)
    )


def test_what_is_imported_by_two_stands_once(put: Put, current: Read) -> None:
    put({"AGENTS.md": "@c.md\n\n- a", "CLAUDE.md": "@c.md\n\n@AGENTS.md\n\n- b", "c.md": "- c"})
    rules = current()
    assert sentences(rules) == ["c", "a", "b"]
    assert not told(rules)


def test_a_file_that_only_imports_one_that_was_read_is_no_problem(put: Put, current: Read) -> None:
    put({"AGENTS.md": "- a\n", "CLAUDE.md": "@AGENTS.md\n"})
    assert sentences(current()) == ["a"]
    assert not told(current())


@pytest.mark.parametrize(
    "target", ["../../secret.md", "/etc/passwd", "~/secret.md", "inner/link.md"]
)
def test_imports_do_not_leave_the_project(
    put: Put, current: Read, root: Path, home: Path, target: str
) -> None:
    put({"secret.md": "- secret"}, home)
    put({"secret.md": "- secret"}, root.parent.parent)
    put({"AGENTS.md": f"- see @{target}", "inner/x": ""})
    (root / "inner/link.md").symlink_to(home / "secret.md")
    rules = current()
    assert sentences(rules) == [f"see @{target}"]
    (line,) = told(rules)
    assert line.startswith(f"AGENTS.md:1: @{target} is not imported: it is outside the project.")


def test_files_with_keys_and_passwords_are_no_rules(put: Put, current: Read, root: Path) -> None:
    put(
        {
            ".env": "KEY=s3cret",
            "deploy/id_rsa": "s3cret",
            ".aws/notes.md": "s3cret",
            "keys.md": "- in play",
        }
    )
    put({"AGENTS.md": "- one\n\n@.env @deploy/id_rsa @.aws/notes.md\n\n@keys.md\n"})
    (root / "CLAUDE.md").symlink_to(".env")
    rules = current()
    assert sentences(rules) == ["one", "@.env @deploy/id_rsa @.aws/notes.md", "in play"]
    assert [line.split(" is withheld from models: ")[0] for line in told(rules)] == [
        "AGENTS.md:3: @.env is not imported. It",
        "AGENTS.md:3: @deploy/id_rsa is not imported. It",
        "AGENTS.md:3: @.aws/notes.md is not imported. It",
        "CLAUDE.md: Not read: It",
    ]


def test_the_user_allows_folders_to_import_from(put: Put, current: Read, home: Path) -> None:
    put(
        {
            "notes/style.md": "- noted",
            "config/AGENTS.md": "@shared/own.md\n@~/.claude/x.md",
            "config/shared/own.md": "- own",
        },
        home,
    )
    put({".claude/x.md": "- x"}, home)
    put({"AGENTS.md": "@~/notes/style.md"})
    assert sentences(current(import_from=["~/notes"])) == ["own", "x", "noted"]


def test_what_is_no_file_of_rules_is_told(put: Put, current: Read, root: Path, home: Path) -> None:
    put(
        {
            "CLAUDE.md": b"\x7fELF\0\0binary",
            ".cursor/rules/note.md": "- no mdc",
            "GEMINI.md/x": "",
            "AGENTS.md": "- @gone.md @x/y @bob",
        }
    )
    put({"secret.md": "- secret"}, home)
    os.mkfifo(root / "CLAUDE.local.md")
    (root / ".cursorrules").symlink_to(home / "secret.md")
    (root / ".github").mkdir()
    (root / ".github/copilot-instructions.md").symlink_to("nowhere.md")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / ".cursor/rules/s.mdc"))
        rules = current()
    assert sentences(rules) == ["@gone.md @x/y @bob"]
    lines = "\n".join(told(rules))
    for words in (
        "CLAUDE.md: Not read: It is a binary file.",
        "GEMINI.md: Not read: It is a folder",
        "CLAUDE.local.md: Not read:",
        ".cursorrules: Not read: It is a link that points outside the project.",
        "copilot-instructions.md: Not read: There is no",
        ".cursor/rules/note.md: Not read: here only",
        ".cursor/rules/s.mdc: Not read",
        "AGENTS.md:1: @gone.md is not imported",
    ):
        assert words in lines
    assert len(told(rules)) == 8


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_told(put: Put, current: Read, root: Path) -> None:
    put({"AGENTS.md": "- x"})
    (root / "AGENTS.md").chmod(0)
    assert any("cannot be" in line for line in told(current()))


def test_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").symlink_to("/dev/zero")
    file = load_rules(tmp_path / "AGENTS.md")
    assert not file.rules
    assert file.problems[0].fatal


def test_a_file_of_10_mb_is_read_up_to_the_limit_and_that_is_said(put: Put, current: Read) -> None:
    line = "- " + "long rule " * 9 + "\n"
    put({"AGENTS.md": line * (10_000_000 // len(line))})
    before = time.process_time()
    rules = current()
    assert (
        time.process_time() - before < 5
    )  # a bound on work, not a measurement: all of it would take minutes
    count = len(rules.snapshot.bundle.rules)
    assert count == 100_000 // len(line)
    assert told(rules) == [
        f"AGENTS.md:{count + 1}: The rest is not read: only {count * len(line):,} of the"
        f" {10_000_000 // len(line) * len(line):,} bytes are."
    ]


def test_many_files_are_bounded(put: Put, current: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_FILES", 20)
    put({f".cursor/rules/{n:04}.mdc": f"---\nalwaysApply: true\n---\n- r{n}" for n in range(25)})
    rules = current()
    assert len(rules.snapshot.files) == 20
    assert any("there are more than 20 rules files" in line for line in told(rules))


def test_names_cannot_forge_lines(put: Put, current: Read) -> None:
    put({".cursor/rules/a\nb\u202e.mdc": "---\nalwaysApply: true\n---\n- r"})
    (file,) = current().snapshot.files
    assert file.path == ".cursor/rules/a<U+000A>b<U+202E>.mdc"


def test_a_repository_of_somebody_else_above_is_left_alone(
    put: Put, current: Read, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put({"AGENTS.md": "- above", "pkg/AGENTS.md": "- mine"})
    real = os.stat

    def other(path: object, *more: object, **named: object) -> os.stat_result:
        status = real(path, *more, **named)  # type: ignore[arg-type]
        if str(path) == str(root):
            return os.stat_result([*status[:4], status.st_uid + 1, *status[5:10]])
        return status

    monkeypatch.setattr(os, "stat", other)
    assert sentences(current("pkg")) == ["mine"]


def test_a_missing_file_gives_a_problem_and_no_exception(tmp_path: Path) -> None:
    file = load_rules(tmp_path / "AGENTS.md")
    assert not file.rules
    assert [(problem.fatal, problem.message) for problem in file.problems] == [
        (True, "Not read: There is no such file.")
    ]


def test_what_changes_is_seen_and_what_went_is_forgotten(
    put: Put, current: Read, root: Path
) -> None:
    put({"AGENTS.md": "- a\n\n@later.md", "CLAUDE.md": "- c"})
    rules = current()
    assert not rules.refresh()
    put({"later.md": "- later"})
    assert rules.refresh()
    assert sentences(rules) == ["a", "later", "c"]
    (root / "CLAUDE.md").unlink()
    assert rules.refresh()
    assert not rules.loader.has_changed()
    put({"later.md": "- LATER"})
    assert rules.refresh()
    assert sentences(rules) == ["a", "LATER"]
    put({"notes.txt": "nothing to do with rules"})
    assert not rules.refresh()


def test_rules_are_replaced_at_once_and_as_a_whole(
    put: Put, current: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may be judged while a thread reads again: there is no moment without rules."""
    put({"AGENTS.md": "## Safety\n- Never edit `a`.\n"})
    rules = current()
    seen = []
    real = type(rules).__setattr__
    monkeypatch.setattr(
        type(rules),
        "__setattr__",
        lambda self, name, value: (seen.append((name, value)), real(self, name, value))[1],
    )
    put({"AGENTS.md": "## Safety\n- Never edit `b`.\n"})
    assert rules.refresh()
    assert [len(value.bundle.rules) for name, value in seen if name == "snapshot"] == [1]


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        (".windsurfrules", "- w", Mode.ALWAYS),
        (".roorules", "- w", Mode.ALWAYS),
        (".windsurf/rules/a.md", "---\ntrigger: always_on\n---\n- w", Mode.ALWAYS),
        (".windsurf/rules/a.md", "---\ntrigger: glob\nglobs: **/*.ts\n---\n- w", Mode.AUTO),
        (".windsurf/rules/a.md", "---\ntrigger: glob\n---\n- w", Mode.ALWAYS),
        (
            ".windsurf/rules/a.md",
            "---\ntrigger: model_decision\ndescription: d\n---\n- w",
            Mode.AGENT,
        ),
        (".windsurf/rules/a.md", "---\ntrigger: manual\n---\n- w", Mode.MANUAL),
        (".windsurf/rules/a.md", "- w", Mode.ALWAYS),
        (".clinerules", "- w", Mode.ALWAYS),
        (".clinerules/a.md", "- w", Mode.ALWAYS),
        (".clinerules/a.txt", "- w", Mode.ALWAYS),
        (".clinerules/a.md", "---\npaths:\n  - src/**\n---\n- w", Mode.AUTO),
        (".roo/rules/a.md", "- w", Mode.ALWAYS),
        (".kiro/steering/a.md", "- w", Mode.ALWAYS),
        (".junie/guidelines.md", "- w", Mode.ALWAYS),
        (
            ".kiro/steering/a.md",
            "---\ninclusion: fileMatch\nfileMatchPattern: '*.ts'\n---\n- w",
            Mode.AUTO,
        ),
        (".kiro/steering/a.md", "---\ninclusion: manual\n---\n- w", Mode.MANUAL),
    ],
)
def test_rules_of_further_agents_apply_when_their_front_matter_says(
    put: Put, current: Read, name: str, text: str, mode: Mode
) -> None:
    put({name: text})
    (file,) = current().snapshot.files
    assert (file.path, file.mode) == (name, mode)
    assert [rule.sentence for rule in file.rules] == ["w"]


def test_the_workflows_of_cline_are_commands_and_no_rules(put: Put, current: Read) -> None:
    put({".clinerules/workflows/deploy.md": "- Deploy.", ".clinerules/a.md": "- w"})
    assert order(current()) == [".clinerules/a.md"]
