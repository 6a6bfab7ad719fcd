"""The tables of programs: a line of another form is a mistake, never ignored."""

import pytest
from hilum_guard.programs import tables


@pytest.mark.parametrize(
    "lines",
    [
        "cat\n    flags\n",
        "cat\n    flags=n\n",
        "cat\n    flags =\n",
        "cat\n  flags = n\n",
        "cat\n      flags = n\n",
        "cat\n        n\n",
        "    flags = n\n",
        "cat,\n    flags = n\n",
    ],
)
def test_a_line_of_another_form_is_an_error(monkeypatch, tmp_path, lines):
    """The error names the table and the line."""
    monkeypatch.setattr(tables, "_FOLDER", tmp_path)
    (tmp_path / "odd.ini").write_text(lines)
    with pytest.raises(ValueError, match=r"odd\.ini, line \d"):
        tables.read_table("odd")


def test_a_switch_is_yes_or_no():
    """``no`` does not switch a column on."""
    assert tables.parse_switch("yes")
    assert not tables.parse_switch("no")
    with pytest.raises(ValueError, match="neither yes nor no"):
        tables.parse_switch("on")
