"""Files of commands: every format and every mistake, each read or reported with its line."""

import json
import os

import pytest
from hilum_commands import CommandCatalog, load_command_file
from hilum_commands.command import main
from hilum_commands.foreign_files import find_foreign_files
from hilum_commands.session_commands import TERMINAL_NAMES
from hilum_commands.sources import CommandSource
from hilum_commands.template import Argument, TemplateError, split_template
from hilum_terminal.slash_table import BUILT_IN
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    return root


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text)
    return path


def find(project):
    catalog = CommandCatalog(project)
    catalog.refresh(TERMINAL_NAMES)
    return catalog


def load(project, name, text, dialect="claude"):
    path = write(project, f"commands/{name}", text)
    return load_command_file(path, CommandSource(project / "commands", "here", "user", dialect))


@pytest.mark.parametrize(
    ("name", "text", "dialect", "line", "message"),
    [
        ("a.md", "", "claude", 1, "The command has no text."),
        ("a.md", "---\ndescription: d\n---\n\n", "claude", 4, "The command has no text."),
        ("a.md", b"\x00" * 1_000_001, "claude", 1, "1,000,001 bytes, more than 1,000,000"),
        ("a.toml", 'prompt = "x\n', "gemini", 1, "The file is not TOML"),
        ("a.toml", 'description = "d"\n', "gemini", 1, "`prompt` is missing"),
        ("a.toml", "prompt = 3\n", "gemini", 1, "`prompt` must be a text"),
        (
            "a.toml",
            'prompt = """\na\nb !{x {y}\n"""',
            "gemini",
            3,
            "The braces of `!{` are not closed",
        ),
        ("a.toml", 'prompt = "!{ }"', "gemini", 1, "!{} is empty"),
        ("a.toml", 'prompt = "@{"', "gemini", 1, "The braces of `@{` are not closed"),
        ("a.toml", "prompt = " + "[" * 3000, "gemini", 1, "nested too deeply"),
    ],
)
def test_a_mistake_is_reported_with_its_line(project, name, text, dialect, line, message):
    command = load(project, name, text, dialect)
    assert command.error
    reported = command.describe_problems()
    assert any(f"{name}:{line}: " in each and message in each for each in reported), reported


def test_ten_megabytes_are_not_read(project):
    command = load(project, "a.md", "x" * 10_000_000)
    assert "10,000,000 bytes" in command.error


def test_what_is_no_regular_file_is_not_read(project):
    os.mkfifo(write(project, "commands/x.md", "").with_name("pipe.md"))
    command = load_command_file(
        project / "commands/pipe.md", CommandSource(project / "commands", "here", "user", "claude")
    )
    assert "not a regular file" in command.error


@pytest.mark.parametrize(
    "front",
    ["description: [a", "description: *x", "description: a: b", "\tdescription: d", "x: &a [*a]"],
)
def test_front_matter_that_is_no_yaml_does_not_cost_the_command(project, front):
    command = load(project, "a.md", f"---\n{front}\n---\nDo it.")
    assert not command.error
    assert command.pieces == ("Do it.",)


def test_fields_are_read_as_written(project):
    command = load(
        project,
        "a.md",
        "---\ndescription: Says no\nargument-hint: [a] [b]: c\nmodel: no\nagent: 1.10\n"
        "allowed-tools: Bash(git add:*, x), Read\nsubtask: yes\n---\nDo it.",
    )
    assert command.hint == "[a] [b]: c"
    assert (command.model, command.agent, command.is_subtask) == ("no", "1.10", True)
    assert command.tools == ("Bash(git add:*, x)", "Read")
    assert load(project, "b.md", "---\nallowed-tools: []\n---\nx").tools == ()
    assert load(project, "c.md", "---\nallowed-tools:\n---\nx").tools is None


def test_lines_count_from_the_beginning_of_the_file(project):
    command = load(project, "a.md", "---\ndescription: d\n---\n\nText\n!`echo a`\n")
    assert [piece.line for piece in command.pieces if not isinstance(piece, str)] == [6]
    command = load(
        project, "a.toml", 'description = "d"\nprompt = """\nText\n!{echo a}\n"""', "gemini"
    )
    assert [piece.line for piece in command.pieces if not isinstance(piece, str)] == [4]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"command": {"a": }}', 1),
        ("{\n // c\n /* two\n lines */ x\n}", 4),
        ('{"command": {"a": {"template": "x"}', 1),
    ],
)
def test_a_configuration_that_is_no_json_is_reported(project, text, line):
    write(project, "opencode.jsonc", text)
    (entry,) = find(project).entries
    assert entry.state == "broken"
    assert (
        f"opencode.jsonc:{line}: The commands in it cannot be used"
        in find(project).describe_problems()[0]
    )


def test_a_configuration_with_wrong_commands_keeps_the_others(project):
    text = """\ufeff{
  // "command": "commented",
  "command": {
    "good": {"template": "Do // it", "description": 5,},
    "bad": {"description": "d"},
    "worse": "text",
    "file": {"template": "{file:./x.md}"}
  },
  "commands": [1],
}"""
    write(project, "opencode.json", text)
    catalog = find(project)
    assert [entry.name for entry in catalog.usable()] == ["good"]
    assert catalog.find("good").file.pieces == ("Do // it",)
    problems = "\n".join(catalog.describe_problems())
    for line, message in (
        (4, "`description` must be a text"),
        (5, "`template` is missing"),
        (6, "'worse' must be a mapping"),
        (7, "./x.md cannot be read"),
        (9, "`commands` must be a mapping"),
    ):
        assert any(
            f"opencode.json:{line}: " in each and message in each for each in problems.split("\n")
        ), (line, problems)


def test_names_of_files(project):
    for name in ("a b.md", "审查.md", "x\ty.md", "README.md", "notes.txt", "deep/er/z.md", "é.md"):
        write(project, f".claude/commands/{name}", "Text")
    for folder in ("one", "two"):
        write(project, f".claude/commands/{folder}/same.md", folder)
    names = {entry.name for entry in find(project).usable()}
    assert names == {"a-b", "审查", "x-y", "z", "é", "one:same", "two:same"}
    assert find(project).find("deep:er:z") is not None


def test_links_out_of_the_project_are_not_followed(project, tmp_path):
    secret = write(tmp_path, "outside/secret.md", "hidden")
    (project / ".claude/commands").mkdir(parents=True)
    (project / ".claude/commands/a.md").symlink_to(secret)
    (project / ".cursor").mkdir()
    (project / ".cursor/commands").symlink_to(secret.parent)
    (project / ".claude/commands/loop").symlink_to(project / ".claude/commands")
    catalog = find(project)
    assert catalog.entries == []
    assert sum("leads out of the project" in each for each in catalog.complaints) == 2


def test_only_changed_files_are_read_again(project, monkeypatch):
    write(project, ".claude/commands/a.md", "A")
    write(project, ".claude/commands/b.md", "B")
    catalog = find(project)
    read = []
    load = load_command_file
    monkeypatch.setattr(
        "hilum_commands.catalog.load_command_file",
        lambda path, source: read.append(path.name) or load(path, source),
    )
    catalog.refresh()
    assert read == []
    write(project, ".claude/commands/b.md", "Number B")
    catalog.refresh()
    assert read == ["b.md"]
    assert catalog.find("b").file.pieces == ("Number B",)


def test_too_many_files_are_reported(project):
    for number in range(502):
        write(project, f".claude/commands/c{number:03}.md", "x")
    catalog = find(project)
    assert len(catalog.usable()) == 500
    assert any("more than 500 commands" in each for each in catalog.complaints)


def test_a_home_folder_has_no_project_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    write(tmp_path, ".claude/commands/a.md", "Mine")
    (entry,) = find(tmp_path).entries
    assert entry.file.source.scope == "user"


def test_the_names_of_the_terminal_are_known():
    names = {name for command in BUILT_IN for name in (command.name, *command.aliases)}
    assert names == TERMINAL_NAMES


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="$ARGUMENTS1{}!`@a/. \n\"'args[]()input:#", max_size=60))
def test_no_text_is_lost_and_nothing_fails(text):
    """Without places, a text is what it was; with any, splitting never raises another error."""
    for dialect in ("claude", "gemini", "copilot", "hilum", "opencode", "cursor", "codex"):
        try:
            pieces = split_template(text, dialect)
        except TemplateError:
            continue
        if all(isinstance(piece, str) for piece in pieces):
            assert dialect == "codex" or "".join(pieces) == text


def test_the_command_lists_and_shows(project, capsys, monkeypatch):
    assert main(["-C", str(project)]) == 0
    assert "There are no custom commands" in capsys.readouterr().out
    write(
        project,
        ".claude/commands/a.md",
        "---\nargument-hint: [x]\nallowed-tools: Read\n---\nDo !`git log $1`",
    )
    write(project, ".claude/commands/clear.md", "Mine")
    assert main(["-C", str(project)]) == 0
    printed = capsys.readouterr().out
    assert "/a [x]  (.claude/commands)" in printed
    assert "/clear is a command of hilum" in printed
    assert main(["show", "/a", "-C", str(project)]) == 0
    assert "git log <1>" in capsys.readouterr().out
    write(project, ".gemini/commands/b.toml", "prompt")
    assert main(["-C", str(project), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in data["commands"]] == ["on", "hidden", "broken"]
    assert "b.toml:1" in "".join(data["problems"])


def test_the_commands_of_other_programs_are_reported(project):
    write(project, ".claude/commands/review.md", "Review $ARGUMENTS.")
    write(project, ".gemini/commands/broken.toml", 'prompt = "!{"')
    write(project, "opencode.jsonc", '{"command": {"check": {"template": "Check it."}}} // c')
    write(project, ".hilum/commands/own.md", "Mine.")
    write(project, ".claude/commands/clear.md", "Mine.")
    write(project, ".claude/commands/log.md", "Explain !`git log`.")
    write(project, ".gemini/commands/notes.md", "Not TOML.")
    claude, gemini, opencode = find_foreign_files(project)
    assert (claude.agent, claude.kind, claude.user) == ("Claude Code", "commands", False)
    assert claude.works == ("1 command can be used: /review",)
    assert claude.left == (
        "shell inserts are off until you trust the project: /log",
        "/clear: It is not used, because /clear is a command of hilum. Rename it to use it.",
    )
    assert gemini.works == ()
    assert gemini.left[0].startswith("/broken: ")
    assert gemini.left[1] == "notes.md: it is no command, because its name does not end in .toml"
    assert "broken.toml:1: " in gemini.problems[0]
    assert opencode.works == ("1 command can be used: /check",)


def test_a_link_out_of_the_folder_is_named_as_such(project, tmp_path):
    (tmp_path / "outside.md").write_text("Outside.")
    write(project, ".claude/commands/a.md", "Mine.")
    (project / ".claude/commands/cred.md").symlink_to(tmp_path / "outside.md")
    (claude,) = find_foreign_files(project)
    assert claude.left == ("cred.md: it is a link that leads out of the folder",)


def test_variables_without_a_value_are_reported(project):
    text = "---\ndescription: d\n---\nExplain ${input:what}.\n\n${selection} in ${file}, ${selection}\n"
    write(project, ".github/prompts/explain.prompt.md", text)
    (copilot,) = find_foreign_files(project)
    assert copilot.works == ("1 command can be used: /explain",)
    path = project / ".github/prompts/explain.prompt.md"
    assert copilot.problems == (
        f"{path}:6: hilum has no value for ${{selection}}; it is sent as written.",
        f"{path}:6: hilum has no value for ${{file}}; it is sent as written.",
    )


def test_places_that_gemini_does_not_have_are_reported(project):
    text = 'prompt = """\n{{args_0}}: !{git diff {{args_1}}} of {{args}}, {{arg}} {{name}}\n"""'
    write(project, ".gemini/commands/commit.toml", text)
    (gemini,) = find_foreign_files(project)
    assert [problem.partition(": ")[2] for problem in gemini.problems] == [
        f"hilum has no value for {{{{{name}}}}}; it is sent as written."
        for name in ("args_0", "args_1", "arg")
    ]
    assert gemini.problems[0].startswith(f"{project / '.gemini/commands/commit.toml'}:2: ")


def _join(text, words, dialect="claude"):
    """Return a text with its arguments, and the shell inserts as they are."""
    shown = []
    for piece in split_template(text, dialect):
        for part in getattr(piece, "parts", (piece,)):
            shown.append(part if isinstance(part, str) else f"<{words[int(part.key) - 1]}>")
    return "".join(shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Migrate $0 from $1 to $2.", "Migrate <A> from <B> to <C>."),
        ("Migrate '$0' from '$1'.", "Migrate '<A>' from '<B>'."),
        ("Deploy $2 to $1.", "Deploy <B> to <A>."),
        # In code, `$0` belongs to a shell or to AWK.
        ("Run `basename $0` for $1.", "Run `basename $0` for <A>."),
        ("```\necho $0\n```\nFor $1.", "```\necho $0\n```\nFor <A>."),
        ("It costs $0.50 for $1.", "It costs $0.50 for <A>."),
        # What is in single quotes becomes `$1` again when the command is put together.
        ("$0: !`git log $1 | awk '{print $1}'`", "<A>: git log <B> | awk '{print <A>}'"),
    ],
)
def test_arguments_are_counted_from_zero_in_files_that_use_zero(text, expected):
    assert _join(text, "ABC") == expected


def test_other_programs_count_from_one():
    assert _join("Migrate $0 from $1.", "ABC", "opencode") == "Migrate $0 from <A>."


def test_the_users_argument_can_be_a_file_of_gemini():
    before, reference = split_template("Test @{{args}}", "gemini")
    assert (before, reference.parts) == ("Test ", (Argument("*"),))
    assert reference.is_certain


def test_a_command_of_opencode_includes_files(project, tmp_path):
    (tmp_path / "outside.md").write_text("Outside.")
    commands = {
        "plan": {"template": "{file:commands/plan.md}\n\nPlan $ARGUMENTS."},
        "gone": {"template": "{file:commands/gone.md}"},
        "out": {"template": "{file:../../outside.md}"},
    }
    write(project, ".opencode/opencode.json", json.dumps({"command": commands}))
    write(project, ".opencode/commands/plan.md", "Think first about $1.")
    catalog = CommandCatalog(project)

    def read(name):
        catalog.refresh()
        found = [e for e in catalog.entries if e.name == name and e.file.source.is_file]
        return found[0].file

    assert read("plan").pieces[:2] == ("Think first about ", Argument("1"))
    write(project, ".opencode/commands/plan.md", "Only think.")
    assert read("plan").pieces[0] == "Only think.\n\nPlan "
    assert read("gone").error == "commands/gone.md cannot be read: No such file or directory."
    assert read("out").error == "../../outside.md is outside the project, so it is not read."
    write(project, ".opencode/commands/gone.md", "Here.")
    assert read("gone").pieces == ("Here.",)


def test_a_text_between_two_lines_of_dashes_is_the_text(project):
    write(
        project, ".claude/commands/fix.md", "---\nPor favor arregla: $ARGUMENTS.\n\nPasos:\n---\n"
    )
    catalog = CommandCatalog(project)
    catalog.refresh()
    (entry,) = catalog.usable()
    assert entry.file.pieces == ("Por favor arregla: ", Argument("*"), ".\n\nPasos:")
    assert entry.file.summary == "Por favor arregla: $ARGUMENTS."
    assert entry.file.problems == ()
