"""What the patterns of other agents mean: escapes, brackets, braces and control characters."""

import json
import warnings
from pathlib import Path

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import UsageError, config_folder
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.foreign_files import find_foreign_files
from hilum_guard.foreign.braces import expand_braces
from hilum_guard.foreign.files import AGENTS
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.foreign.patterns import convert_path, is_ambiguous_path
from hilum_guard.rules import rule_files
from hilum_guard.rules.matching import parse
from hilum_guard.rules.patterns import exact_path, fit_path

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
CLAUDE = ".claude/settings.json"


def claude(**lists):
    """The text of settings of Claude Code."""
    return json.dumps({"permissions": lists}, indent=2)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project beside an empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


def read_rules(project, name, text):
    """Return the rules that a file becomes."""
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (rules,) = load_foreign_rules(project, tuple(AGENTS))
    return rules


def denies(rules, tool, path):
    """Whether one of the rules about a tool matches a path."""
    return any(rule.tool == tool and rule.fits_path(path) for rule in rules.rules)


# --- control characters ---------------------------------------------------------------------------

CONTROLS = [
    "\n",
    "\r",
    "\t",
    "\x0b",
    "\x0c",
    "\x1b",
    "\x85",
    "\u2028",
    "\u2029",
    "\u200b",
    "\u202e",
]


@pytest.mark.parametrize("character", CONTROLS)
@pytest.mark.parametrize(
    "rule", ["Edit(docs/x{}*)", "Read(a{}b)", "WebFetch(domain:a{}b)", "Task(a{}b)"]
)
def test_an_allow_rule_with_a_hidden_character_is_not_taken_over(project, character, rule):
    read_rules(project, CLAUDE, claude(allow=[rule.format(character)]))
    (file,) = [each for each in find_foreign_files(project) if each.kind == "permissions"]
    assert file.offers == ()
    (left,) = file.left
    assert "it contains the character \\" in left
    assert left.isprintable()


@pytest.mark.parametrize("character", CONTROLS)
def test_a_deny_rule_with_a_hidden_character_fails_closed(project, character):
    rules = read_rules(project, CLAUDE, claude(deny=[f"Edit(docs/x{character}*.csv)"]))
    (problem,) = rules.problems
    assert problem.startswith(f"{project / CLAUDE}:4: Edit(docs/x\\")
    assert "contains the character" in problem
    assert problem.isprintable()
    assert len(rules.doubts) == 1


def test_a_deny_rule_with_a_line_break_denies_each_line(project):
    rules = read_rules(project, CLAUDE, claude(deny=["Read(a\n*.pem)"]))
    assert [rule.text for rule in rules.rules] == ["read_file(a)", "read_file(*.pem)"]
    rules = read_rules(project, CLAUDE, claude(deny=["Read(secr\u200bets/**)"]))
    assert [rule.text for rule in rules.rules] == ["read_file(/secrets/**)"]


def test_white_space_around_a_rule_and_a_tab_in_a_command_mean_nothing(project):
    rules = read_rules(project, CLAUDE, claude(deny=["\tRead( a.txt\n)\n", "Bash(git\tpush:*)"]))
    assert rules.problems == []
    assert rules.doubts == []
    assert [rule.text for rule in rules.rules] == [
        "read_file(a.txt)",
        "run_terminal_cmd(git push *)",
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_a_pattern_with_a_line_break_is_one_pattern(strict):
    assert not fit_path("/docs/x\n*", "a.py", strict=strict)
    assert not fit_path("*\n!*.py", "b.txt", strict=strict)
    assert fit_path("/docs/x\n*", "docs/x\nyz", strict=strict)
    # The names of files may contain line breaks.
    assert fit_path("/secrets/**", "secrets/a\nb", strict=strict)
    assert fit_path("/a/*/b", "a/x\ny/b", strict=strict)
    assert not fit_path("/a", "a\n", strict=strict)
    assert fit_path(exact_path("a\nb"), "a\nb", strict=strict)


@pytest.mark.parametrize("tool", ["write_file", "read_file", "delete_file", "write", "read"])
@pytest.mark.parametrize("character", ["\n", "\t", "\x85", "\u2028"])
def test_a_rule_file_cannot_contain_a_path_with_a_line_break(tool, character):
    with pytest.raises(ValueError, match="contains the control character"):
        parse(f"{tool}(docs/x{character}*)", "allow")


def test_the_writer_of_the_rule_file_refuses_a_path_with_a_line_break(tmp_path):
    with pytest.raises(UsageError, match="contains the control character"):
        rule_files.add(tmp_path, None, "allow", "write_file(docs/x\n*)")
    # The exact text of a command may have several lines.
    assert rule_files.add(tmp_path, None, "allow", "run_terminal_cmd(=echo a\necho b)")


async def test_a_stored_rule_with_a_line_break_allows_nothing(bench):
    """An earlier version stored such rules."""
    kit = await bench(*PLUGINS, approve="ask_first")
    config_folder().mkdir(parents=True, exist_ok=True)
    (config_folder() / "permissions.toml").write_text('allow = ["write_file(/docs/x\\n*)"]\n')
    assert (await kit.call("write_file", path="a.py", content="1")).code == E_DENIED
    assert not (kit.workspace / "a.py").exists()


# --- escapes and brackets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"docs/\[a\].md", [r"/docs/\[a\].md"]),
        (r"x\ y.txt", [r"x\ y.txt"]),
        ("x\\ ", ["x\\ "]),
        (r"a/\*.md", [r"/a/\*.md"]),
        (r"docs\*.md", [r"docs\*.md", "/docs/*.md"]),
        (r"docs\secret\**", ["/docs/secret\\**", "/docs/secret/**"]),
        (r"C:\code\x", ["/C:/code/x"]),
        ("//code/[x]/a", ["//code/[x]/a"]),
        ("//code/pro[j]ect/src/a.py", ["//code/pro[j]ect/src/a.py"]),
    ],
)
def test_a_backslash_escapes_or_separates(pattern, expected):
    root = Path("/code/project")
    assert list(convert_path(pattern, root, root, Path("/home/me"))) == expected


def test_the_folder_of_a_project_is_no_pattern():
    root = Path("/code/[x] *")
    assert list(convert_path("./a", root, root, root)) == ["/a"]
    assert "//code/[[]x] */a" in convert_path("//code/[[]x] */a", root, root, root)
    assert list(convert_path("~/a", root, Path("/p"), root)) == [r"//code/\[x\] \*/a"]


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (r"docs/\[a\].md", "docs/[a].md"),
        (r"src/\[id\]/secret.ts", "src/[id]/secret.ts"),
        (r"x\ y.txt", "x y.txt"),
        ("src/[id]/secret.ts", "src/[id]/secret.ts"),
        ("src/[id]/secret.ts", "src/i/secret.ts"),
        ("src/[...slug]/**", "src/[...slug]/a.ts"),
        ("src/[[...slug]]/**", "src/[[...slug]]/a.ts"),
        ("[z-a]/x", "[z-a]/x"),
        ("src/[id", "src/[id"),
        ("docs/{b,c}.md", "docs/c.md"),
        ("docs/{b,c}.md", "docs/{b,c}.md"),
    ],
)
def test_a_denied_path_is_denied_in_each_way_that_it_can_be_meant(project, rule, path):
    rules = read_rules(project, CLAUDE, claude(deny=[f"Read({rule})", f"Edit({rule})"]))
    assert rules.problems == []
    assert denies(rules, "read_file", path)
    assert denies(rules, "write_file", path)
    assert not denies(rules, "read_file", "other/x.ts")


def test_an_own_rule_and_a_list_of_ignored_files_deny_both_readings(project):
    assert parse("read_file(src/[id]/x.ts)", "deny").fits_path("src/[id]/x.ts")
    assert parse("read_file(src/[id]/x.ts)", "deny").fits_path("src/d/x.ts")
    # A rule that allows means the wildcard only, as documented.
    assert not parse("read_file(src/[id]/x.ts)", "allow").fits_path("src/[id]/x.ts")
    rules = read_rules(project, ".cursorignore", "src/[id]/x.ts\n")
    assert denies(rules, "read_file", "src/[id]/x.ts")


@pytest.mark.parametrize("pattern", ["src/[id]/**", r"a\b", "a/{b,c}", r"docs\*.md"])
def test_an_allowed_path_with_several_meanings_is_not_taken_over(project, pattern):
    rules = read_rules(project, CLAUDE, claude(allow=[f"Edit({pattern})"]))
    (allowed,) = rules.allowed
    assert allowed.rules == ()
    assert "agents disagree" in allowed.refusal
    assert is_ambiguous_path(pattern)
    assert not is_ambiguous_path(r"src/\[id\]/x y/\*")


async def test_escapes_and_brackets_hold_in_a_session(bench):
    deny = [r"Edit(docs/\[a\].md)", "Read(src/[id]/secret.ts)"]
    files = {CLAUDE: claude(deny=deny), "docs/[a].md": "x", "src/[id]/secret.ts": "hunter2"}
    kit = await bench(*PLUGINS, approve="auto", files=files)
    await kit.call("read_file", path="docs/[a].md")
    for name, arguments in [
        ("write_file", {"path": "docs/[a].md", "content": "y"}),
        ("read_file", {"path": "src/[id]/secret.ts"}),
        ("run_terminal_cmd", {"command": "cat 'src/[id]/secret.ts'"}),
    ]:
        assert (await kit.call(name, **arguments)).code == E_DENIED, arguments
    # The sandbox hides what a command does not name.
    result = await kit.call(
        "run_terminal_cmd", command="python3 -c \"print(open('src/['+'id]/secret.ts').read())\""
    )
    assert "hunter2" not in result.text


def test_brackets_in_rules_cause_no_warning(project):
    """Python warns about `[[` in a regular expression."""
    deny = [
        "Bash(grep [a-z] x)",
        "Bash([ -f x ])",
        "Bash(if [[ -d x ]])",
        "Read([[]x)",
        "Read([a&&b]/x)",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules = read_rules(project, CLAUDE, claude(deny=deny))
        assert denies(rules, "read_file", "[x")
    assert rules.problems == []


# --- braces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.{csv,tsv}", ["*.csv", "*.tsv"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"]),
        ("x{1..3}", ["x1", "x2", "x3"]),
        ("{,x}y", ["y", "xy"]),
        ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
    ],
)
def test_braces_stand_for_alternatives(pattern, expected):
    assert expand_braces(pattern) == expected


def test_braces_of_cursor_and_copilot_are_expanded(project):
    text = json.dumps(
        {"permissions": {"deny": ["Write(**/*.{csv,tsv})"], "allow": ["Write(a/{b,c}/**)"]}}
    )
    rules = read_rules(project, ".cursor/cli.json", text)
    assert denies(rules, "write_file", "d.csv")
    assert denies(rules, "write_file", "a/d.tsv")
    assert not denies(rules, "write_file", "d.txt")
    assert [each.rules for each in rules.allowed] == [
        ("write_file(/a/b/**)", "write_file(/a/c/**)")
    ]
    (project / ".cursor/cli.json").unlink()
    text = json.dumps({"chat.tools.edits.autoApprove": {"**/*.{abc,xyz}": False}})
    rules = read_rules(project, ".vscode/settings.json", text)
    assert denies(rules, "write_file", "q.abc")


def test_too_many_alternatives_fail_closed(project):
    text = json.dumps({"permissions": {"deny": ["Write(" + "{a,b}" * 20 + ")"]}})
    rules = read_rules(project, ".cursor/cli.json", text)
    assert "its braces stand for more than 64 patterns" in rules.problems[0]
    assert len(rules.doubts) == 1


def test_an_exception_concerns_the_project_only(project):
    permission = {"edit": {"/etc/**": "deny", "src/**": "allow"}, "list": {"/etc/**": "deny"}}
    rules = read_rules(project, "opencode.json", json.dumps({"permission": permission}))
    assert denies(rules, "write_file", "/etc/passwd")
    assert denies(rules, "list_directory", "/etc/ssl")
    assert denies(rules, "write_file", "etc/passwd")
    assert not denies(rules, "write_file", "src/a.py")


# --- reasons --------------------------------------------------------------------------------------


async def test_deleting_one_file_has_nothing_to_do_with_a_rule_about_a_folder(bench):
    """Only a folder contains other files."""
    sandbox = {"filesystem": {"denyWrite": ["dist"]}}
    files = {CLAUDE: json.dumps({"sandbox": sandbox}), "src/cart.py": "x", "src/dist/a.js": "x"}
    kit = await bench(*PLUGINS, approve="auto", files=files)
    await kit.call("read_file", path="src/cart.py")
    await kit.call("read_file", path="src/dist/a.js")
    assert (await kit.call("delete_file", path="src/cart.py")).code == ""
    assert kit.of(ApprovalAsked) == []
    assert (await kit.call("delete_file", path="src/dist/a.js")).code == E_DENIED
