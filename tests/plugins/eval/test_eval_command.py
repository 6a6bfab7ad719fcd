"""The command ``hilum eval``, from its options to its reports."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eval_cases import write_suite_case
from hilum import UsageError
from hilum_eval.eval_command import main
from hilum_eval.measurement import RESULTS

pytestmark = pytest.mark.slow(cases=5, of="file")


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    write_suite_case(folder, "X01", more="tags: [small]")
    write_suite_case(folder, "X02", verifier="import sys; sys.exit('never <b>good</b>')")
    return folder


def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HILUM_DATA": str(tmp_path / "data"), "HOME": str(tmp_path / "home")}


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "hilum", "eval", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ(tmp_path),
        cwd=tmp_path,
    )


def read_lines(folder: Path) -> list[dict]:
    path = folder / RESULTS
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def wait_for_line(folder: Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while not read_lines(folder):
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def find_children(pid: int) -> set[int]:
    """Return the ids of all processes below a process."""
    children: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(path.parent.name)
            children |= {child, *find_children(child)}
    return children


def test_a_measurement_is_reported_and_resumed(tmp_path, suite, capfd, monkeypatch):
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    page = tmp_path / "report.html"
    options = ["--suite", str(suite), "--profile", "perfect"]
    assert main([*options, "--html", str(page)]) == 1
    captured = capfd.readouterr()
    assert re.search(r"X01 +Rename a function +1/1 +100\.0 ", captured.out)
    assert re.search(r"X02 +Rename a function +0/1 +0\.0 ", captured.out)
    assert "X02: completion 0 < 10 (never <b>good</b>)" in captured.out
    assert re.search(r"edits +15 % +50\.0", captured.out)
    assert re.search(r"planning +15 % +not measured", captured.out)
    assert "cases passed: 1.0, at least 1.7 needed: NOT MET" in captured.out
    assert "Measured: the agent's loop, tools, recovery and guards." in captured.out
    assert "[2/2] " in captured.err
    [folder] = (tmp_path / "data" / "eval").iterdir()
    assert f"Results: {folder}" in captured.out

    html = page.read_text()
    assert "never &lt;b&gt;good&lt;/b&gt;" in html
    assert "<script" not in html
    assert html.count("<svg") == 4
    assert not re.search(r'(src|href)="(?!#)', html), "the page loads something"
    assert "var(--text)" in html

    # One more repeat: only this one is made.
    assert main([*options, "--repeats", "2", "--resume", "--json", "X01"]) == 0
    captured = capfd.readouterr()
    assert "1 of 2 attempts were made before." in captured.err
    report = json.loads(captured.out)
    assert report["schema"] == 1
    assert report["passed"] is True
    [arm] = report["arms"]
    assert arm["total"] == 100
    assert arm["cases"][0]["passed"] == 2
    assert {attempt["repeat"] for attempt in report["attempts"]} == {0, 1}
    assert len(read_lines(folder)) == 3


def test_killed_and_stopped_measurements_continue(tmp_path, suite):
    """No result is lost or made twice, and no process is left."""
    out = tmp_path / "out"
    options = ["X01", "--suite", str(suite), "--profile", "perfect", "--out", str(out)]
    options += ["--repeats", "3", "--jobs", "1"]
    process = start(tmp_path, *options)
    wait_for_line(out, process)
    children = find_children(process.pid)
    process.kill()
    process.communicate()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end, "processes outlive the killed command"
        time.sleep(0.05)
    done = len(read_lines(out))
    assert 1 <= done < 3

    process = start(tmp_path, *options, "--resume")
    line = process.stderr.readline()
    assert f"{done} of 3 attempts were made before." in line
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The measurement was stopped; --resume continues it." in text
    assert f"{len(read_lines(out))}/{len(read_lines(out))}" in text

    process = start(tmp_path, *options, "--resume", "--json")
    text, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert json.loads(text)["arms"][0]["attempts"] == 3
    assert sorted(line["seed"] for line in read_lines(out)) == [0, 1, 2]


def test_the_example_is_a_case_that_works(tmp_path, capfd):
    assert main(["init", str(tmp_path / "cases")]) == 0
    assert "hilum eval check" in capfd.readouterr().out
    with pytest.raises(UsageError, match="exists"):
        main(["init", str(tmp_path / "cases")])
    write_suite_case(tmp_path / "cases", "LAX", verifier="print('fine')")
    write_suite_case(tmp_path / "cases", "ODD", verifier="import json; json.loads('[')")
    assert main(["check", str(tmp_path / "cases")]) == 1
    out = capfd.readouterr().out
    assert "rename-function: works" in out
    assert "LAX: does not work\n  The verifier accepts the untouched files." in out
    assert "ODD: does not work\n  With the untouched files: The verifier failed: json" in out
    assert "1 of 3 cases work." in out


def test_a_profile_is_found_beside_the_user_and_two_measurements_get_folders(
    tmp_path, suite, capfd, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(time, "strftime", lambda text: "20260101-000000")
    (tmp_path / "mine.toml").write_text("[slips]\nedit = 0.0\n")
    for _ in range(2):
        assert (
            main(["--suite", str(suite), "X01", "--profile", "mine.toml", "--fail-under", "1"]) == 0
        )
    names = {path.name for path in (tmp_path / "data" / "eval").iterdir()}
    assert names == {"20260101-000000", "20260101-000000-2"}


def test_a_page_that_cannot_be_written_is_noticed_first(tmp_path, suite, monkeypatch):
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    page = tmp_path / "missing" / "page.html"
    with pytest.raises(UsageError, match="cannot be written"):
        main(["--suite", str(suite), "--html", str(page)])
    assert not (tmp_path / "data").exists()


def test_a_pipe_among_the_files_of_a_case_is_named(tmp_path, suite, monkeypatch):
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    os.mkfifo(suite / "x01" / "files" / "pipe")
    with pytest.raises(UsageError, match="pipe cannot be used: Neither a file"):
        main(["--suite", str(suite)])


def test_cases_are_listed_and_chosen(suite, capfd):
    assert main(["--suite", str(suite), "--list"]) == 0
    out = capfd.readouterr().out
    assert re.search(r"X01 +Rename a function +edits, tools +4 +small", out)
    assert main(["--suite", str(suite), "--list", "--tag", "small"]) == 0
    assert "X02" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["X09"], "'X09'"),
        (["--tag", "huge"], "No case has these tags."),
        (["--repeats", "0"], "--repeats must be from 1 to 10000."),
        (["--fail-under", "101"], "--fail-under must be from 0 to 100."),
        (["--profile", "clever"], "'clever' is neither a file nor one of perfect"),
        (["--arm", "missing.toml"], "missing.toml cannot be read"),
        (
            ["--arm", "a.toml", "--model", "x/y"],
            "--arm cannot be combined with --model or --profile.",
        ),
        (["--arm", "a.toml", "--arm", "b/a.toml"], "Two arms have the name 'a'."),
        (["--arm", "bad.toml"], "bad.toml: unknown key 'modle'"),
        (["--arm", "torn.toml"], "torn.toml is not valid TOML"),
        (["--arm", "plugin.toml"], "plugins: there is no file"),
        (["--resume"], "There is no earlier measurement."),
    ],
)
def test_wrong_options_are_named(tmp_path, suite, arguments, problem, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    (tmp_path / "b").mkdir()
    for name, text in {
        "a.toml": "",
        "b/a.toml": "",
        "bad.toml": "modle = 'x'",
        "torn.toml": "model = ",
        "plugin.toml": "plugins = ['none.py']",
    }.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        main(["--suite", str(suite), *arguments])
    assert problem in caught.value.message
