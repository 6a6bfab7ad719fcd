"""Sessions in PostgreSQL: begun by one machine, listed and continued by another one."""

import json

from postgres_server import postgres

__all__ = ["postgres"]


async def test_another_machine_lists_reads_and_resumes(cli, asks, postgres):
    """Each machine has a data folder of its own; what they share is the database."""
    url = postgres.make_database()
    other = {"HILUM_POSTGRES_URL": url, "HILUM_DATA": str(cli.folder / "other machine")}
    (cli.workspace / "a.txt").write_text("alpha\n")
    async with cli.model(asks("read_file", path="a.txt"), "It says alpha.", "It was a.txt."):
        done = await cli(
            "run", "what is in a.txt?", "--output-format", "json", HILUM_POSTGRES_URL=url
        )
        session = done.result["session"]
        [info] = json.loads((await cli("sessions", "list", "--all", "--json", **other)).out)
        assert (info["id"], info["state"]) == (session, "completed")
        assert "It says alpha." in (await cli("sessions", "show", session, **other)).out
        done = await cli("run", "--resume", session, "which file?", **other)
        assert "It was a.txt." in done.out
    assert not (cli.folder / "other machine" / "sessions.db").exists()
    assert json.loads((await cli("sessions", "list", "--all", "--json")).out) == []
    done = await cli("sessions", "delete", session, "--yes", **other)
    assert done.code == 0
    done = await cli("sessions", "show", session, HILUM_POSTGRES_URL=url)
    assert done.code != 0


async def test_unreachable_database_is_an_error_and_no_other_store_is_used(cli):
    """Sessions never go to a file because the database is away."""
    url = "postgresql://me:geheim@127.0.0.1:1/team"
    async with cli.model("Hello."):
        done = await cli("run", "hello", HILUM_POSTGRES_URL=url)
    assert done.code == 5
    assert "E_STORE" in done.err
    assert "the database team on 127.0.0.1" in done.err
    assert "geheim" not in done.err + done.out
    assert not (cli.folder / "data" / "sessions.db").exists()
