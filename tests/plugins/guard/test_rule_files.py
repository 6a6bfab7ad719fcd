"""Files of rules that cannot be read."""

from hilum_guard import rule_files


def test_a_number_that_is_too_long_is_a_mistake_of_its_file(tmp_path):
    """Python refuses such a number with an error of its own, which is not about TOML."""
    file = rule_files.user_file(tmp_path)
    file.write_text(f"x = {'9' * 5000}\n")
    (mistake,) = rule_files.load(tmp_path, tmp_path / "project").mistakes
    assert str(file) in mistake
    assert "not valid TOML: a number is too long" in mistake
