"""What people are told who cannot connect: what is wrong and what to do, and never a password."""

import socket

import psycopg
import pytest
from hilum import StoreError
from hilum_postgres import PostgresStore


async def refuse(url: str) -> StoreError:
    """Return the error for a URL."""
    store = PostgresStore(url)
    try:
        with pytest.raises(StoreError) as caught:
            await store.list()
    finally:
        await store.close()
    assert caught.value.hint
    assert caught.value.__cause__ is None
    return caught.value


async def test_unreachable_database_is_named_without_the_password() -> None:
    """The message names the database, and says what to do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await refuse(f"postgresql://me:geheim@127.0.0.1:{port}/Team")
    assert "cannot reach the database Team on 127.0.0.1" in error.message
    assert "geheim" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://hilum:hunter2/tail99@127.0.0.1:1/hilum",
        "postgresql://hilum:hunter2@tail99@127.0.0.1:1/hilum",
        "postgresql://hilum:tail99@@127.0.0.1:1/hilum",
        "postgresql://hilum:hunter2/tail99#@127.0.0.1:1/hilum",
        "postgresql://hilum:1234/tail99@127.0.0.1:1/hilum",
        "postgresql://hilum:hunter2?tail99@x@127.0.0.1:1/hilum",
        "postgresql://hilum:hunter2%tail99@127.0.0.1:1/hilum",
        "postgresql://hilum:hunter2 tail99@127.0.0.1:1/hilum",
        "postgresql://hilum:tail99/hilum",
        "postgresql://hilum:hunter2@127.0.0.1:tail99/hilum",
        "postgresql://hilum:hunter2@127.0.0.1/hilum?tail99=hunter2",
        "postgresql://hilum:hunter2@127.0.0.1/hilum?sslmode=tail99=hunter2",
        "host=127.0.0.1 password=hunter2 tail99",
        "host=127.0.0.1 password=hunter2 tail99=x",
        "postgres:tail99",
    ],
)
async def test_no_part_of_a_password_is_shown(url: str) -> None:
    """libpq takes parts of an unencoded password for a host, a port or the name of a database."""
    error = await refuse(url)
    for part in ("hunter2", "tail99", "1234"):
        assert part not in str(error)
        assert part not in error.hint


@pytest.mark.parametrize(
    ("url", "problem", "hint"),
    [
        ("postgresql://me:a@b@h/d", "unencoded character", "@ as %40"),
        ("postgresql://me@h/d?sslmod=require", "does not know", "Did you mean sslmode?"),
        ("postgresql://me@h/d?options=-c%20a=b", "contains =", "%3D"),
        ("postgresql://me@h/d b", "contains a space", "%20"),
        ("postgresql://me:%ZZ@h/d", "hexadecimal", "%25"),
        ("postgresql://me@h:port/d", "not a number", "HOST:PORT"),
        ("host=h passwor=x", "does not know", "Did you mean password?"),
        ("me", "not a URL", "postgresql://USER@HOST"),
        (" ", "is blank", "postgresql://USER@HOST"),
    ],
)
async def test_wrong_url_is_explained(url: str, problem: str, hint: str) -> None:
    """The sentence says which rule is broken, and how to write it."""
    error = await refuse(url)
    assert problem in error.message
    assert hint in error.hint


async def test_encoded_password_is_accepted(postgres, url: str) -> None:
    """What is encoded means itself, and a question mark needs no encoding."""
    for password in ("p%40%2F%23%25", "p?w=x"):
        store = PostgresStore(url.replace("hilum@", f"hilum:{password}@"))
        assert await store.list() == []
        await store.close()


async def test_server_that_refuses_the_login_is_not_called_unreachable(postgres, url: str) -> None:
    """Looking for a fault of the network would be in vain."""
    error = await refuse(url.replace("hilum@", "nobody@"))
    assert "refuses hilum" in error.message
    assert "Correct the name" in error.hint
    error = await refuse(postgres.url("unknown"))
    assert "The database unknown on 127.0.0.1 refuses hilum" in error.message


async def test_wrong_password_is_named(own_server) -> None:
    """The hint leads to the places where a password may be."""
    url = own_server.make_database()
    own_server.execute(url, "CREATE ROLE pw LOGIN PASSWORD 'right'")
    rules = own_server.folder / "data" / "pg_hba.conf"
    rules.write_text(f"host all pw all scram-sha-256\n{rules.read_text()}")
    own_server.execute(url, "SELECT pg_reload_conf()")
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
    error = await refuse(url.replace("hilum@", "pw:geheim@"))
    assert "refuses hilum" in error.message
    assert "geheim" not in str(error)
    assert "~/.pgpass" in error.hint


async def test_tables_that_are_not_those_of_hilum_are_named(make_store, postgres, url: str) -> None:
    """Whoever lost a table, or has one of another program, learns what to do."""
    await make_store().list()
    postgres.execute(url, "DROP TABLE hilum.versions")
    error = await refuse(url)
    assert "table `versions` does not say of which format" in error.message
    assert "another database" in error.hint
    other = postgres.make_database()
    postgres.execute(other, "CREATE SCHEMA hilum; CREATE TABLE hilum.sessions (a int)")
    assert "already has tables" in (await refuse(other)).message
    third = postgres.make_database()
    store = PostgresStore(third)
    await store.list()
    await store.close()
    postgres.execute(
        third, "DROP TABLE hilum.sessions CASCADE; CREATE TABLE hilum.sessions (a int)"
    )
    error = await refuse(third)
    assert "are not those of hilum" in error.message
    assert "another database" in error.hint
