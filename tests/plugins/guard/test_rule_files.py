"""Files of rules that cannot be read, or that have too many rules."""

import pytest
from hilum import UsageError
from hilum_guard.rules import matching, rule_files, tool_names
from hilum_guard.rules.tool_names import KnownTool


def test_a_number_that_is_too_long_is_a_mistake_of_its_file(tmp_path):
    """Python refuses such a number with an error of its own, which is not about TOML."""
    file = rule_files.user_file(tmp_path)
    file.write_text(f"x = {'9' * 5000}\n")
    (mistake,) = rule_files.load(tmp_path, tmp_path / "project").mistakes
    assert str(file) in mistake
    assert "not valid TOML: a number is too long" in mistake


TOOLS = {
    "write_file": KnownTool("write", frozenset({"path", "content"})),
    "web_fetch": KnownTool("network", frozenset({"url", "method"})),
    "run_terminal_cmd": KnownTool("execute", frozenset({"command", "timeout"})),
}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("write_file(paht=x)", "write_file has no parameter 'paht'; did you mean path?"),
        (
            "write_file(zzz=x, path=y)",
            "write_file has no parameter 'zzz'; known: content, path",
        ),
        (
            "web_*(mthod=GET, urll=https://x)",
            "web_* has no parameter 'mthod'; did you mean method?; web_* has no parameter 'urll';"
            " did you mean url?",
        ),
        ("write(paht=x)", "write has no parameter 'paht'; did you mean path?"),
        (
            "web_fetch(domain=x.example)",
            "web_fetch has no parameter 'domain'; did you mean domain: with a colon?",
        ),
        (
            "web_fetch(domian:x.example)",
            "'web_fetch(domian:x.example)' begins with domian:, which is unknown; did you mean"
            " web_fetch(domain:x.example)?",
        ),
    ],
)
def test_a_rule_with_an_unknown_parameter_is_a_mistake(tmp_path, rule, reason):
    """Such a rule would match no call, so a misspelt one would deny nothing."""
    file = rule_files.user_file(tmp_path)
    file.write_text(f'\ndeny = ["{rule}"]\n')
    rules = rule_files.load(tmp_path, tmp_path / "project", TOOLS)
    assert rules.mistakes == (f"{file}: line 2: deny[1]: {reason}",)


@pytest.mark.parametrize(
    "rule",
    [
        "write_file(path=x, content=**)",
        "web_fetch(url=https://x/**)",
        "web_fetch(localhost:8080)",
        "run_terminal_cmd(LANG=C ls)",
        "*(path=x)",
        "github__create(titel=x)",
        "edit_file(paht=x)",
    ],
)
def test_a_parameter_is_only_checked_where_the_tool_is_known(tmp_path, rule):
    """A command may begin with an assignment, and a server's tools may change."""
    rule_files.user_file(tmp_path).write_text(f'deny = ["{rule}"]\n')
    assert rule_files.load(tmp_path, tmp_path / "project", TOOLS).mistakes == ()


def test_a_table_for_a_folder_in_a_projects_file_is_explained(tmp_path):
    """The message contains the reason, and where the rules belong."""
    project = tmp_path / "project"
    file = rule_files.project_file(project)
    file.parent.mkdir(parents=True)
    file.write_text('ask = []\n[workspace."/x"]\ndeny = ["write_file"]\n[session.shred]\n')
    assert rule_files.load(tmp_path, project).mistakes == (
        f"{file}: line 2: workspace: a project's file applies only in its own folder, so it has no"
        " tables for folders; write the lists ask and deny at the top of this file, or move the"
        " table to a file of your own (hilum permissions deny RULE --workspace)",
        f"{file}: line 4: session.shred: is not a kind of session; did you mean shared?",
    )


def too_many(count):
    """A file with this many rules."""
    return "deny = [" + ", ".join(f'"read_file(x{number})"' for number in range(count)) + "]\n"


@pytest.mark.parametrize("is_project", [True, False])
def test_a_file_with_too_many_rules_is_refused_as_a_whole(tmp_path, is_project):
    """Each call would be compared with each of them."""
    project = tmp_path / "project"
    file = rule_files.project_file(project) if is_project else rule_files.user_file(tmp_path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(too_many(rule_files.MAX_RULES + 1))
    found = rule_files.load(tmp_path, project)
    assert found.rules == ()
    (mistake,) = found.mistakes
    assert str(file) in mistake
    assert "has 5,001 rules, and at most 5,000 are supported" in mistake


def test_entries_that_are_no_rules_are_counted_too(tmp_path):
    """Each of them would be a mistake with a line of its own."""
    file = rule_files.user_file(tmp_path)
    file.write_text("".join(f"x{number} = 1\n" for number in range(rule_files.MAX_RULES + 1)))
    assert len(rule_files.load(tmp_path, tmp_path / "project").mistakes) == 1


def test_a_full_file_accepts_no_further_rule(tmp_path, monkeypatch):
    """One rule more would make all of them invalid; rules can still be removed."""
    monkeypatch.setattr(rule_files, "MAX_RULES", 50)
    file = rule_files.user_file(tmp_path)
    text = too_many(rule_files.MAX_RULES)
    file.write_text(text)
    assert len(rule_files.load(tmp_path, tmp_path / "project").rules) == rule_files.MAX_RULES
    with pytest.raises(UsageError, match=r"has 51 rules"):
        rule_files.add(tmp_path, None, "deny", "read_file(y)")
    assert file.read_text() == text
    assert rule_files.remove(tmp_path, None, "deny", "read_file(x0)")
    assert rule_files.add(tmp_path, None, "deny", "read_file(y)")


def test_a_mistake_names_its_line(tmp_path):
    """Also behind other lines, and where its text has several lines."""
    file = rule_files.user_file(tmp_path)
    file.write_text('deny = [\n  "read_file(x)",\n  "no rule",\n]\n')
    (mistake,) = rule_files.load(tmp_path, tmp_path / "project").mistakes
    assert "line 3: deny[2]" in mistake


def test_the_tools_of_rules_are_compared_once_for_each_name():
    """Thousands of rules usually name one of a few tools."""
    tool_names.names.cache_clear()
    facts = matching.CallFacts("read_file", {}, paths=("a",), category="read")
    for number in range(100):
        matching.fit(matching.parse(f"web_fetch(x{number}.example)", "deny"), facts)
    assert tool_names.names.cache_info().misses < 100
