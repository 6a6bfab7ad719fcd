"""The checks of plugins, whatever they do."""

import sys
import time

import pytest
from hilum import checks
from hilum.checks import Check, run_checks

HEAD = "import sys, time\nfrom hilum.checks import Check\ndef check(folder, online):\n    "


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the checks of one installed plugin."""

    def run(body):
        info = tmp_path / "evil_checks-1.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text("[hilum.checks]\nevil = evil_checks:check\n")
        (tmp_path / "evil_checks.py").write_text(HEAD + body)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.delitem(sys.modules, "evil_checks", raising=False)
        return [row for row in run_checks(tmp_path) if "evil" in row.subject or "evil" in row.fix]

    return run


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return 5", "not iterable"),
        ("return None", "not iterable"),
        ("return 'abc'", "it returned str, not a Check"),
        ("return [{'grade': 'ok'}]", "it returned dict, not a Check"),
        ("return [Check('ok', None, None, None)]", "not strings"),
        ("return [Check('ok', b'a', 'b')]", "not strings"),
        ("sys.exit(0)", "SystemExit: 0"),
        ("raise BaseException('base')", "BaseException: base"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})", "could not be checked"),
    ],
)
def test_a_check_that_is_wrong_is_one_failed_row(run, body, found):
    """It names the distribution to update."""
    (row,) = run(body)
    assert (row.grade, row.subject, row.fix) == ("fail", "evil", "Update or reinstall evil-checks.")
    assert found in row.found


def test_texts_are_short_and_on_one_line(run):
    """A plugin cannot write the row of another one."""
    body = "return [Check('ok', 'evil\\nok x', 'y\\r\\nok    guard', 'f' * 9000)]"
    (row,) = run(body)
    assert row == Check("ok", "evil ok x", "y ok    guard", "f" * 2000)


def test_an_unknown_grade_is_a_failure(run):
    """So it counts in the exit code."""
    (row,) = run("return [Check('fatal', 'evil', 'b')]")
    assert row.grade == "fail"


def test_endless_checks_are_cut_off(run):
    """With what was found so far."""
    rows = run("while True: yield Check('ok', 'evil', 'b')")
    assert len(rows) == checks.MAX_CHECKS + 1
    assert "more than 1000 checks" in rows[-1].found


def test_a_check_that_does_not_end_is_a_failed_row(run, monkeypatch):
    """What it had found is shown."""
    monkeypatch.setattr(checks, "TIME_LIMIT", 3.0)
    start = time.monotonic()
    rows = run("yield Check('ok', 'evil', 'b')\n    time.sleep(60)")
    assert time.monotonic() - start < 30
    assert rows[0].found == "b"
    assert "takes longer than 3 seconds" in rows[1].found


def test_what_a_check_prints_goes_to_standard_error(run, capsys):
    """Standard output may be JSON."""
    assert run("print('noise'); return []") == []
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "noise\n")
