"""The tasks file: every mistake is named before anything starts."""

import json

import pytest
from hilum import UsageError
from hilum_dask import tasks as module
from hilum_dask.folders import BatchFolder, name_file
from hilum_dask.records import Record
from hilum_dask.tasks import TaskFile, read_files


def load(path, *lines):
    """Write lines, and load them."""
    path.write_text("".join(f"{line}\n" for line in lines))
    tasks = TaskFile(path)
    tasks.load()
    return tasks


def test_lines_are_prompts_or_objects(tmp_path):
    """Plain lines are prompts, and their numbers are ids; blank lines do not count as tasks."""
    described = {"id": "a/b", "prompt": "Do it.", "files": {"x/y.txt": "z"}, "timeout": 3}
    tasks = load(tmp_path / "t", "Fix it.", "", json.dumps(described), '"quoted\\nprompt"')
    assert [entry.id for entry in tasks.entries] == ["1", "a/b", "4"]
    first, second, third = map(tasks.read, tasks.entries)
    assert (first.prompt, third.prompt) == ("Fix it.", "quoted\nprompt")
    assert (second.id, second.timeout) == ("a/b", 3)
    assert read_files(second, tmp_path) == {"x/y.txt": b"z"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"prompt": ', "truncated"),
        ('{"prompt": "x", "promt": 1}', "promt"),
        ('{"id": "x"}', "prompt"),
        ('{"prompt": "  "}', "the prompt is empty"),
        ('{"prompt": "x", "timeout": -1}', "timeout"),
        ('{"prompt": "x", "files": {"../x": ""}}', "'../x' is not inside"),
        ('{"prompt": "x", "files": ["/etc/passwd"]}', "'/etc/passwd' is not inside"),
        ('{"prompt": "x", "files": {".git/config": ""}}', "'.git/config' is not inside"),
        ('{"prompt": "x", "ref": "--upload-pack=x"}', "hyphen"),
        ('{"prompt": "x", "id": "good"}', "already that of line 1"),
        ('{"prompt": "x", "id": "GOOD"}', "already that of line 1"),
        ("[1]", "array"),
        ("{" * 5000, "line 2"),
    ],
)
def test_mistakes_are_named_with_their_lines(tmp_path, line, reason):
    """Nothing starts if one line is wrong."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "t", '{"prompt": "x", "id": "good"}', line)
    assert "line 2: " in caught.value.message
    assert reason in caught.value.message
    assert "nothing was started" in caught.value.message


def test_all_mistakes_are_named_at_once(tmp_path):
    """A user corrects a file once."""
    with pytest.raises(UsageError, match="2 mistakes") as caught:
        load(tmp_path / "t", "{", "good", "{}")
    assert "line 1" in caught.value.message
    assert "line 3" in caught.value.message


def test_a_prompt_of_100_megabytes_is_refused(tmp_path):
    """The line is not even kept in memory."""
    path = tmp_path / "t"
    with open(path, "wb") as file:
        file.write(b"small\n")
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b"\nsmall, too\n")
    with pytest.raises(UsageError) as caught:
        TaskFile(path).load()
    assert caught.value.code == "E_TOO_LARGE"
    assert "line 2: it is larger than 16 MB" in caught.value.message


def test_a_large_prompt_in_a_readable_line_is_refused(tmp_path):
    """The limit for prompts is below that for lines."""
    with pytest.raises(UsageError, match="at most 4 MB") as caught:
        load(tmp_path / "t", "x" * (module.MAX_PROMPT + 1))
    assert caught.value.code == "E_TOO_LARGE"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\n"])
def test_a_file_without_tasks_is_refused(tmp_path, content):
    """An empty file and one that is no text."""
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(UsageError):
        TaskFile(tmp_path / "t").load()


def test_a_missing_file_is_named(tmp_path):
    """As is a folder."""
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            TaskFile(path).load()


@pytest.mark.parametrize(
    "identity", ["a/b", "..", ".", ".hidden", "x" * 5000, "é/\n", "a b", "%2E"]
)
def test_any_id_has_a_file_name_of_its_own(tmp_path, identity):
    """Also ids with slashes, and very long ones; none leads outside the folder."""
    name = name_file(identity)
    folder = BatchFolder(tmp_path)
    folder.create()
    assert folder.publish(name, Record(id=identity, state="completed"))
    assert [path.name for path in folder.results.iterdir()] == [f"{name}.json"]
    assert folder.result_names() == {name}
    assert name != name_file(f"{identity}.")


def test_a_second_result_is_never_accepted(tmp_path):
    """The first one stays, whoever comes second."""
    folder = BatchFolder(tmp_path)
    folder.create()
    assert folder.publish("a", Record(id="a", state="completed", text="first"))
    assert not folder.publish("a", Record(id="a", state="failed", text="second"))
    assert folder.read_result("a").text == "first"
    assert len(list(folder.results.iterdir())) == 1
