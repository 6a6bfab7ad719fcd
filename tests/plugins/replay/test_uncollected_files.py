"""pytest imports and collects nothing that is in a recording, wherever it starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hilum_replay.sessions.recording import SESSION_FILE

CORPUS = Path(__file__).parents[3] / "plugins/replay/hilum_replay/corpus"
EXPORTED_TEST = """
from pathlib import Path

from hilum_replay.sessions.session_test import check_session

RECORDING = Path(__file__).parent / "{name}"


def test_{name}(tmp_path: Path) -> None:
    check_session(RECORDING, tmp_path / "workspace")
"""


def run_pytest(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as its own command does: without the current folder in the import path."""
    # In the usual folder, pytest would remove the files of earlier runs, which may take minutes.
    temporary = {"PYTEST_DEBUG_TEMPROOT": str(folder.parent)}
    options = "-q -p no:cacheprovider -p no:schemathesis".split()
    command = [sys.executable, "-P", "-m", "pytest", *options, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **temporary, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project with an exported test, whose recording contains a project with tests."""
    project = tmp_path / "project"
    sessions = project / "tests" / "sessions"
    shutil.copytree(CORPUS / "question", sessions / "question")
    (sessions / "test_question.py").write_text(EXPORTED_TEST.format(name="question"))
    (project / "tests" / "test_own.py").write_text("def test_own():\n    pass\n")
    return project


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """Return the file that modules of ``plant`` create when they are imported."""
    return tmp_path / "imported"


def plant(imported: Path, *files: Path) -> None:
    """Write modules that leave a file when they are imported, and fail as tests."""
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"from pathlib import Path\n\nPath({str(imported)!r}).write_text(__file__)\n\n\n"
            "def test_planted():\n    assert False\n"
        )


def copy_recording(folder: Path) -> Path:
    """Copy a recording of the corpus."""
    shutil.copytree(CORPUS / "question", folder)
    return folder


# --- modules at the top of a recording ------------------------------------------------------------


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    ("current", "arguments"),
    [
        ("corpus", ["--hilum-corpus", "."]),
        ("corpus", []),
        (".", ["corpus", "--hilum-corpus", "corpus"]),
        (".", ["corpus"]),
        (".", ["corpus/"]),
        (".", ["./other/../corpus"]),
        (".", ["link"]),
        (".", ["--hilum-corpus", "corpus"]),
        (".", []),
    ],
)
def test_a_conftest_of_a_recording_is_not_loaded(tmp_path, imported, current, arguments):
    plant(imported, copy_recording(tmp_path / "corpus" / "test_evil") / "conftest.py")
    (tmp_path / "link").symlink_to("corpus")
    done = run_pytest(tmp_path / current, *arguments)
    assert not imported.exists()
    assert done.returncode != 0
    assert "contains conftest.py, which hilum did not write" in done.stdout + done.stderr


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("log", ["damaged", "link", "folder"])
def test_a_conftest_of_a_recording_that_cannot_be_replayed_is_not_loaded(tmp_path, imported, log):
    evil = copy_recording(tmp_path / "corpus" / "test_evil")
    plant(imported, evil / "conftest.py")
    file = evil / SESSION_FILE
    file.unlink()
    if log == "damaged":
        file.write_text("damaged")
    elif log == "link":
        file.symlink_to("missing")
    else:
        file.mkdir()
    done = run_pytest(tmp_path / "corpus", "--hilum-corpus", ".")
    assert not imported.exists()
    assert done.returncode == 4
    assert "contains conftest.py, which hilum did not write" in done.stderr


@pytest.mark.parametrize(
    "settings", ["[pytest]\ntestpaths = tests\n", "[pytest]\ntestpaths = t*\n"]
)
def test_a_conftest_of_a_recording_in_testpaths_is_not_loaded(project, imported, settings):
    plant(imported, copy_recording(project / "tests" / "test_evil") / "conftest.py")
    (project / "pytest.ini").write_text(settings)
    done = run_pytest(project)
    assert not imported.exists()
    assert "contains conftest.py" in done.stderr
    assert done.returncode == 4


def test_a_conftest_in_a_link_to_a_recorded_project_is_not_loaded(project, imported):
    recorded = project / "tests" / "sessions" / "question" / "before"
    plant(imported, recorded / "conftest.py", recorded / "test_planted.py")
    (project / "tests" / "test_link").symlink_to("sessions/question/before")
    done = run_pytest(project, "tests")
    assert not imported.exists()
    assert done.returncode == 4
    (project / "tests" / "test_link").rename(project / "tests" / "link")
    (project / "tests" / "test_file_link.py").symlink_to("link/test_planted.py")
    done = run_pytest(project, "tests")
    assert not imported.exists()
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_recording_is_not_imported_in_place_of_a_package(project, imported):
    sessions = project / "tests" / "sessions"
    plant(imported, copy_recording(sessions / "wave") / "__init__.py")
    (sessions / "test_sound.py").write_text("import wave\n\n\ndef test_sound():\n    pass\n")
    done = run_pytest(project, "tests")
    assert not imported.exists()
    assert done.returncode == 2
    assert "contains __init__.py, which hilum did not write" in done.stdout


# --- pytest that starts in a recording ------------------------------------------------------------


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    ("current", "arguments"),
    [
        (".", ["corpus/rec"]),
        (".", ["corpus/rec/before"]),
        (".", ["corpus/rec/before/test_x.py"]),
        (".", ["corpus/rec/before/test_x.py::test_planted"]),
        (".", ["corpus", "corpus/rec"]),
        (".", ["corpus/rec", "--hilum-corpus", "corpus"]),
        (".", ["link"]),
        (".", ["link/test_x.py"]),
        (".", ["-c", "corpus/rec/pytest.ini", "other"]),
        (".", ["-c", "corpus/rec/pytest.ini", "--rootdir", ".", "other"]),
        (".", ["--rootdir", "corpus/rec", "other"]),
        (".", ["--pyargs", "corpus.rec.before.test_x"]),
        ("corpus", ["rec"]),
        ("corpus/rec", ["--hilum-corpus", ".."]),
        ("corpus/rec", []),
        ("corpus/rec/before", []),
        ("corpus/rec/before", ["test_x.py"]),
        ("corpus/rec", ["../../other"]),
    ],
)
def test_pytest_does_not_start_in_a_recording(tmp_path, imported, current, arguments):
    rec = copy_recording(tmp_path / "corpus" / "rec")
    plant(imported, rec / "before" / "test_x.py", rec / "before" / "conftest.py")
    plant(imported, rec / "__init__.py")
    (rec / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "link").symlink_to("corpus/rec/before")
    (tmp_path / "other").mkdir()
    done = run_pytest(tmp_path / current, *arguments, PYTHONPATH=str(tmp_path))
    assert not imported.exists(), imported.read_text()
    assert done.returncode == 4, done.stdout
    assert "is a recorded session" in done.stderr
    assert "pytest --hilum-corpus" in done.stderr


def test_a_conftest_cannot_have_a_recording_collected(project, imported):
    recorded = project / "tests" / "sessions" / "question" / "before"
    plant(imported, recorded / "conftest.py", recorded / "test_planted.py")
    (project / "conftest.py").write_text("def pytest_ignore_collect():\n    return False\n")
    done = run_pytest(project)
    assert not imported.exists()
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


# --- what still runs ------------------------------------------------------------------------------


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ([], 2),
        (["tests"], 2),
        (["tests/sessions"], 1),
        (["tests/sessions/test_question.py"], 1),
        (["tests/sessions/test_question.py::test_question"], 1),
        (["tests", "--hilum-corpus", "tests/sessions"], 3),
        (["--hilum-corpus", "tests/sessions"], 3),
    ],
)
def test_exported_tests_run(project, arguments, passed):
    (project / "tests" / "conftest.py").write_text("loaded = True\n")
    done = run_pytest(project, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{passed} passed" in done.stdout


def test_a_recording_may_have_a_name_that_begins_with_test(project):
    sessions = project / "tests" / "sessions"
    copy_recording(sessions / "test_again")
    (sessions / "test_test_again.py").write_text(EXPORTED_TEST.format(name="test_again"))
    done = run_pytest(sessions, "--hilum-corpus", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_a_project_with_such_a_log_of_its_own_turns_the_plugin_off(tmp_path):
    (tmp_path / SESSION_FILE).write_text("{}\n")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    done = run_pytest(tmp_path)
    assert done.returncode == 4
    assert "run pytest with `-p no:hilum_corpus`" in done.stderr
    done = run_pytest(tmp_path, "-p", "no:hilum_corpus")
    assert "1 passed" in done.stdout
