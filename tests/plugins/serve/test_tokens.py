"""Tokens: hashes only, private files, rights, and an end within a second."""

import json
import multiprocessing
import os
import time

import msgspec
import pytest
import trio
from hilum import UsageError
from hilum.testing import say
from hilum_serve import tokens as tokens_module
from hilum_serve.command import run_token_command
from hilum_serve.listening import (
    read_server_file,
    remove_server_file,
    server_file_path,
    write_server_file,
)
from hilum_serve.tokens import (
    Tokens,
    add_token,
    read_tokens,
    remove_token,
    tokens_path,
    write_tokens,
)
from served import serving


def test_the_file_is_private_and_contains_no_token(tmp_path):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "prompt", workspaces=[tmp_path])
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in file.read_text()
    [stored] = read_tokens(file)
    assert (stored.name, stored.rights, stored.workspaces) == ("eva", "prompt", (str(tmp_path),))
    tokens = Tokens(file, "")
    user = tokens.find_user(token)
    assert (user.name, user.rights) == ("eva", "prompt")
    assert tokens.find_user(token + "x") is None
    assert tokens.find_user("") is None


def test_names_are_unique_and_plain(tmp_path):
    file = tmp_path / "tokens.json"
    add_token(file, "eva", "watch")
    for name in ("eva", "owner", "", "a b", "x" * 41, "a/b"):
        with pytest.raises(UsageError):
            add_token(file, name, "watch")


def test_a_readable_or_broken_file_is_refused(tmp_path):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "watch")
    tokens = Tokens(file, "")
    assert tokens.find_user(token)
    os.chmod(file, 0o644)
    with pytest.raises(UsageError, match="readable by other users"):
        read_tokens(file)
    tokens.reload()
    assert tokens.find_user(token) is None
    os.chmod(file, 0o600)
    file.write_text("{")
    with pytest.raises(UsageError, match="mistake"):
        read_tokens(file)


def test_cookies_end_with_the_server(tmp_path):
    tokens = Tokens(None, "start-token")
    user = tokens.find_user("start-token")
    secret = tokens.make_cookie(user)
    assert tokens.find_cookie_user(secret) == user
    assert Tokens(None, "start-token").find_cookie_user(secret) is None
    assert tokens.find_user(secret) is None


async def test_expired_tokens_are_refused(project, tmp_path):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "watch", seconds=3600)
    stored = read_tokens(file)
    old = json.loads(file.read_text())
    old[0]["expires"] = time.time() - 1
    async with serving(project, tokens_file=file) as served, served.client(token) as client:
        me = (await client.get("/api/me")).json()
        assert (me["name"], me["rights"]) == ("eva", "watch")
        file.write_text(json.dumps(old))
        served.running.tokens.reload()
        assert (await client.get("/api/me")).status_code == 401
    assert stored[0].expires > time.time()


async def test_streams_of_a_removed_token_end_within_a_second(project, tmp_path):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "watch")
    add_token(file, "other", "watch")
    async with serving(project, answers=[say("ok")], tokens_file=file) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with (
            served.socket(hosted.id, token=token) as socket,
            served.socket(hosted.id) as kept,
        ):
            await socket.receive()
            await kept.receive()
            remove_token(file, "eva")
            began = trio.current_time()
            elements = [each async for each in socket]
            assert trio.current_time() - began < 1.5
            assert elements[-1] == {"type": "bye", "why": "token"}
            assert socket.closed == 4401
            await hosted.session.run("Go")
            await kept.read_until(type="run_ended")


async def test_users_see_only_their_folders(project, tmp_path):
    file = tmp_path / "tokens.json"
    other = tmp_path / "other"
    other.mkdir()
    token = add_token(file, "eva", "administer", workspaces=[other])
    async with serving(project, more=[other], tokens_file=file) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.client(token) as client:
            assert (await client.get("/api/sessions")).json()["sessions"] == []
        async with served.socket(hosted.id, token=token) as socket:
            assert (await socket.receive())[0]["status"] == 404


def test_writing_follows_no_link(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    file = tmp_path / "tokens.json"
    file.symlink_to(target)
    write_tokens(file, [])
    assert target.read_text() == "mine"


def test_only_the_chosen_names_are_accepted(tmp_path):
    path = tmp_path / "tokens.json"
    eva = add_token(path, "eva", "prompt")
    max_token = add_token(path, "max", "prompt")
    tokens = Tokens(path, "", names=["eva"])
    assert tokens.find_user(eva).name == "eva"
    assert tokens.find_user(max_token) is None
    assert tokens.find_named("max") is None
    # A change of the file does not let the others in.
    third = add_token(path, "ida", "watch")
    tokens.reload()
    assert tokens.find_user(third) is None
    assert Tokens(path, "").find_user(max_token).name == "max"


@pytest.mark.parametrize("time", ["1000000000000d", "3651d", "9" * 5_000 + "m", "87601h"])
def test_an_absurd_expiry_is_refused(project, capsys, time):
    with pytest.raises(UsageError, match="at most 3,650 days"):
        run_token_command(["add", "eva", "--expires", time])
    assert read_tokens(tokens_path()) == []


def test_a_file_with_an_absurd_expiry_is_listed(project, capsys):
    run_token_command(["add", "eva", "--expires", "3650d"])
    [token] = read_tokens(tokens_path())
    ends = [8.64e16, 1e300, -1.0, -1e300]
    tokens = [msgspec.structs.replace(token, name=f"t{at}", expires=at) for at in ends]
    write_tokens(tokens_path(), [token, *tokens])
    capsys.readouterr()
    assert run_token_command(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "until 20" in lines[0]
    assert ["cannot be shown" in line for line in lines] == [False, True, True, False, False]
    # An end before the beginning of time is no "never".
    assert ["expired" in line for line in lines] == [False, False, False, True, True]
    found = Tokens(tokens_path(), "")
    assert [found.find_named(each.name) is not None for each in tokens] == [
        True,
        True,
        False,
        False,
    ]
    assert run_token_command(["list", "--json"]) == 0


BROKEN = [b'[{"name":"\xff","hash":"a"}]', b"[" * 100_000, b"{", b"", b"null"]


@pytest.mark.parametrize("data", BROKEN, ids=["bytes", "depth", "syntax", "empty", "null"])
async def test_a_file_that_breaks_while_the_server_runs_ends_only_named_tokens(
    project, tmp_path, data
):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "watch")
    async with serving(project, tokens_file=file) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id, token=token) as socket:
            file.write_bytes(data)
            elements = [each async for each in socket]
            assert elements[-1] == {"type": "bye", "why": "token"}
        async with served.client() as client, served.client(token) as eva:
            assert (await client.get("/api/me")).status_code == 200
            assert (await eva.get("/api/me")).status_code == 401
    with pytest.raises(UsageError, match="mistake"):
        read_tokens(file)


@pytest.mark.parametrize("data", BROKEN, ids=["bytes", "depth", "syntax", "empty", "null"])
def test_a_broken_file_about_a_server_is_none(project, data):
    file = write_server_file(1234, "http://x", "t", [])
    assert read_server_file(1234).token == "t"
    file.write_bytes(data)
    assert read_server_file(1234) is None
    remove_server_file(file)
    assert file.exists()


def test_the_file_about_another_server_is_not_removed(project):
    file = write_server_file(1234, "http://x", "t", [])
    about = read_server_file(1234)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(about, pid=about.pid + 1)))
    remove_server_file(file)
    assert file.exists()
    file.write_bytes(msgspec.json.encode(about))
    remove_server_file(server_file_path(1234))
    assert not file.exists()


def test_no_change_of_the_file_is_lost(tmp_path):
    file = tmp_path / "new" / "tokens.json"
    context = multiprocessing.get_context("fork")
    names = [f"u{number}" for number in range(8)]
    adding = [context.Process(target=add_token, args=(file, name, "watch")) for name in names]
    for process in adding:
        process.start()
    for process in adding:
        process.join()
    assert sorted(token.name for token in read_tokens(file)) == names
    removing = [context.Process(target=remove_token, args=(file, name)) for name in names[1:]]
    for process in removing:
        process.start()
    for process in removing:
        process.join()
    assert [token.name for token in read_tokens(file)] == names[:1]


def test_a_cookie_never_becomes_valid_again(monkeypatch):
    monkeypatch.setattr(tokens_module, "MAX_ENDED_COOKIES", 3)
    tokens = Tokens(None, "start-token")
    user = tokens.find_user("start-token")
    made = [tokens.make_cookie(user) for _ in range(8)]
    for cookie in made[:6]:
        tokens.end_cookie(tokens.find_cookie_number(cookie))
    assert [tokens.find_cookie_user(cookie) for cookie in made] == [None] * 6 + [user] * 2
    # A logged-out cookie with a number of its own choice is none.
    assert tokens.find_cookie_user("7" + made[0][1:]) is None


def test_a_code_logs_in_once_and_within_a_minute(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(tokens_module.time, "monotonic", lambda: now)
    tokens = Tokens(None, "start-token")
    code = tokens.make_code()
    assert tokens.find_user(code) is None
    assert tokens.find_login_user(code).name == "owner"
    assert tokens.find_login_user(code) is None
    code = tokens.make_code()
    now += tokens_module.CODE_SECONDS - 1
    assert tokens.find_login_user(code) is not None
    code = tokens.make_code()
    now += tokens_module.CODE_SECONDS
    assert tokens.find_login_user(code) is None
    # Without a token of the start, there is nobody whom a code could log in.
    nobody = Tokens(None, "")
    assert nobody.find_login_user(nobody.make_code()) is None


def test_the_address_for_a_new_token_is_that_of_the_only_running_server(project, capsys):
    run_token_command(["add", "eva"])
    assert "http://127.0.0.1:8722/login" in capsys.readouterr().err
    file = write_server_file(1234, "http://x", "t", [])
    run_token_command(["add", "max"])
    assert "http://127.0.0.1:1234/login" in capsys.readouterr().err
    about = read_server_file(1234)
    # With two of them, or none that is alive, nobody knows which one is meant.
    other = write_server_file(1235, "http://x", "t", [])
    run_token_command(["add", "ida"])
    assert "http://127.0.0.1:8722/login" in capsys.readouterr().err
    other.unlink()
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(about, pid=2**22 + 1)))
    run_token_command(["add", "tom"])
    assert "http://127.0.0.1:8722/login" in capsys.readouterr().err
