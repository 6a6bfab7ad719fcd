"""The reader of configuration files, and the files that plugins report for `hilum import`."""

import pytest
from hilum import foreign_files
from hilum.config_files import UnreadableFile, load_file
from hilum.foreign_files import ForeignFile, find_foreign_files

LENIENT = '\ufeff// first\n{"a": {/* b */ "c": [1, 2,],\n "d": "x, // y",},}'


def test_json_with_comments_and_trailing_commas_keeps_its_lines(tmp_path):
    file = tmp_path / "x.json"
    file.write_text(LENIENT, encoding="utf-8")
    loaded = load_file(file)
    assert loaded.data == {"a": {"c": [1, 2], "d": "x, // y"}}
    assert loaded.find_line(("a", "d")) == 3
    assert loaded.find_line(("a", "missing")) == 2


def test_what_cannot_be_read_is_an_error_with_its_line(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text("a = 1\nb = = 2\n")
    with pytest.raises(UnreadableFile) as caught:
        load_file(file)
    assert caught.value.line == 2
    (tmp_path / "y.json").write_text("[1]")
    with pytest.raises(UnreadableFile, match="a mapping of settings is expected"):
        load_file(tmp_path / "y.json")


class Point:
    """An entry point of a plugin that reports files."""

    distribution = "hilum-words"
    name = "words"

    def __init__(self, find):
        self._find = find

    def load(self):
        return self._find


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda folder: [3], "it returned int, not a ForeignFile"),
        (lambda folder: iter(lambda: ForeignFile(folder, "A", "b"), None), "more than 2,000 files"),
        (lambda folder: 1 / 0, "division by zero"),
    ],
)
def test_a_plugin_that_fails_does_not_hide_the_files_of_others(
    tmp_path, monkeypatch, returned, reason
):
    good = ForeignFile(tmp_path / "x", "Other", "things")
    points = {"bad": Point(returned), "good": Point(lambda folder: [good])}
    monkeypatch.setattr(foreign_files, "entry_points", lambda group: points)
    *failed, last = find_foreign_files(tmp_path)
    assert last == good
    assert reason in failed[-1].problems[0]
    assert "hilum-words" in failed[-1].problems[0]
