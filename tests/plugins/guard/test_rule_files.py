"""Files of rules that cannot be read, or that have too many rules."""

import pytest
from hilum import UsageError
from hilum_guard import rule_files, rules, tool_names


def test_a_number_that_is_too_long_is_a_mistake_of_its_file(tmp_path):
    """Python refuses such a number with an error of its own, which is not about TOML."""
    file = rule_files.user_file(tmp_path)
    file.write_text(f"x = {'9' * 5000}\n")
    (mistake,) = rule_files.load(tmp_path, tmp_path / "project").mistakes
    assert str(file) in mistake
    assert "not valid TOML: a number is too long" in mistake


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


def test_a_full_file_accepts_no_further_rule(tmp_path):
    """One rule more would make all of them invalid; rules can still be removed."""
    file = rule_files.user_file(tmp_path)
    text = too_many(rule_files.MAX_RULES)
    file.write_text(text)
    assert len(rule_files.load(tmp_path, tmp_path / "project").rules) == rule_files.MAX_RULES
    with pytest.raises(UsageError, match=r"has 5,001 rules"):
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
    facts = rules.CallFacts("read_file", {}, paths=("a",), category="read")
    for number in range(100):
        rules.fit(rules.parse(f"web_fetch(x{number}.example)", "deny"), facts)
    assert tool_names.names.cache_info().misses < 100
