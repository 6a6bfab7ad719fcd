"""Files of rules that cannot be read."""

import pytest
from hilum_guard import rule_files
from hilum_guard.tool_names import KnownTool


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
