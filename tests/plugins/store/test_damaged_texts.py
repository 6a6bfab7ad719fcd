"""A session file with damaged bytes in a text."""

import sqlite3
from pathlib import Path

import pytest
from hilum_store.error_messages import explain_error


def test_a_text_that_is_not_utf8_is_damage(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "sessions.db")
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute("SELECT CAST(x'ff' AS TEXT) AS title").fetchall()
    connection.close()
    error = explain_error(caught.value, tmp_path / "sessions.db")
    assert "is damaged" in error.message
    assert ".recover" in error.hint
