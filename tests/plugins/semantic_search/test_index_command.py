"""The command ``hilum index``."""

import json

import pytest
from hilum import HilumError
from hilum_semantic_search.command import main


@pytest.fixture
def run(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HILUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))

    def run(*arguments):
        code = main([*arguments, "-C", str(root)])
        return code, capsys.readouterr().out

    return run


def test_the_index_is_built_shown_and_removed(run, write, root):
    write({"a.py": "def one(): pass\n", "b.bin": b"\0", "c.txt": b"\0"})
    assert "no index" in run("--status")[1]
    assert run()[1].startswith("2 files were read")
    code, text = run("--status")
    assert code == 0
    assert "1 with 1 chunks" in text
    assert "1 (binary)" in text
    assert "embeddings  none" in text
    write({"d.py": "def two(): pass\n"})
    # Files of the last milliseconds are read again, because they may have changed without a trace.
    assert " files were read and 0 removed" in run()[1]
    assert "2 with 2 chunks" in run("--status")[1]
    assert "removed" in run("--clear")[1]
    assert "no index" in run("--clear")[1]
    assert "no index" in run("--status")[1]


def test_json(run, write):
    write({"a.py": "def one(): pass\n"})
    built = json.loads(run("--json")[1])
    assert built["changed"] == 1
    status = json.loads(run("--status", "--json")[1])
    assert status["exists"] is True
    assert status["chunks"] == 1
    assert json.loads(run("--clear", "--json")[1]) == {"removed": True}


def test_a_damaged_index_is_reported_and_built_anew(run, write, tmp_path):
    write({"a.py": "def one(): pass\n"})
    run()
    [database] = tmp_path.glob("cache/semantic-search/*/index.db")
    database.write_bytes(b"nonsense" * 1000)
    code, text = run("--status")
    assert code == 1
    assert "damaged" in text
    assert "built anew" in run()[1]
    assert run("--status")[0] == 0


def test_rebuild_reads_every_file(run, write):
    write({"a.py": "def one(): pass\n", "b.py": "def two(): pass\n"})
    run()
    assert run("--rebuild")[1].startswith("2 files were read")


def test_embeddings_are_computed_and_counted(run, write, monkeypatch, embedding_server):
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDINGS", "endpoint")
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDING_URL", embedding_server.url)
    write({f"f{n}.py": f"def number{n}(): pass\n" for n in range(100)})
    assert "100 embeddings were computed" in run()[1]
    assert (
        "embeddings  100% of the chunks, text-embedding-3-small at 127.0.0.1" in run("--status")[1]
    )
    assert "0 embeddings" in run()[1]


def test_a_missing_folder_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HILUM_CACHE", str(tmp_path / "cache"))
    assert main(["-C", str(tmp_path / "none"), "--json"]) != 0
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E_FILE_NOT_FOUND"


def test_json_is_one_document_if_the_embeddings_fail(run, write, monkeypatch, embedding_server):
    """The index was updated all the same."""
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDINGS", "endpoint")
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDING_URL", embedding_server.url)
    write({"a.py": "def one(): pass\n"})
    embedding_server.answer = (500, b"{}")
    code, text = run("--json")
    found = json.loads(text)
    assert code != 0
    assert (found["changed"], found["error"]["code"]) == (1, "E_HTTP")
    embedding_server.answer = None
    code, text = run("--json")
    assert (code, json.loads(text)["embeddings"]) == (0, 1)


@pytest.mark.parametrize(("kind", "text"), [("onnx", "1 embeddings"), ("endpoint", "")])
def test_only_a_server_needs_a_plugin_that_removes_secrets(
    run, write, monkeypatch, embedding_server, kind, text
):
    """As in a session."""
    monkeypatch.setattr("hilum_semantic_search.command.find_content_policy", lambda: None)
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDINGS", kind)
    monkeypatch.setenv("HILUM_SEMANTIC_SEARCH_EMBEDDING_URL", embedding_server.url)
    write({"a.py": "def one(): pass\n"})
    if kind == "onnx":
        assert text in run()[1]
        return
    with pytest.raises(HilumError, match="only if a plugin can remove secrets"):
        run()
    assert embedding_server.requests == []
