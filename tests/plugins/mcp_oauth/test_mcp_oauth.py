"""Logging in at a server: once, renewed, refused, for more.

To nowhere that is not checked; nothing of it for others.
"""

import io
import json
import random
import stat
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from hilum import HilumError, NeedsUser, ToolError, UsageError
from hilum_mcp import login, managing, reaching, sources, tokens
from hilum_mcp.managing import Desk
from mcp import MCPError

from .conftest import Place


async def test_a_log_in_is_kept_and_signs_the_requests_of_later_sessions(place: Place) -> None:
    """PKCE, state, resource and scope are sent.

    The file is the user's; nobody is asked a second time.
    """
    with pytest.raises(NeedsUser, match="log in"):
        await place.use()
    assert await place.log_in() == "look"
    (asked,) = place.it.of("authorize")
    assert (asked["code_challenge_method"], asked["resource"]) == ("S256", f"{place.it.url}/mcp")
    assert stat.S_IMODE(place.kept.file.stat().st_mode) == 0o600
    assert await place.use() == "look"
    assert len(place.it.of("authorize")) == len(place.it.of("register")) == 1


async def test_a_token_that_has_run_out_is_renewed_and_the_renewing_token_changes(
    place: Place,
) -> None:
    """By its own time, and where the server takes it no more."""
    await place.log_in()
    place.kept.update(until=time.time() - 1)
    assert await place.use() == "look"
    first = place.it.of("token")[-1]
    assert first["grant_type"] == "refresh_token"
    place.it.forget_access()
    assert await place.use() == "look"
    second = place.it.of("token")[-1]
    assert second["grant_type"] == "refresh_token"
    assert second["refresh_token"] != first["refresh_token"]
    assert len(place.it.of("authorize")) == 1


async def test_two_sessions_spend_a_renewing_token_once(place: Place) -> None:
    """The second takes what the first got: a token that comes twice would end the log-in at many
    servers.
    """
    await place.log_in()
    place.it.forget_access()
    got: list[str] = []

    async def session() -> None:
        got.append(await place.use())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(session)
    assert got == ["look"] * 3
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1


@pytest.mark.parametrize("how", ["time", "server"])
async def test_requests_at_once_renew_a_token_once(place: Place, how: str) -> None:
    """Of one session, whose requests all find that the token holds no more."""
    import httpx2

    await place.log_in()
    if how == "time":
        place.kept.update(until=time.time() - 1)
    else:
        place.it.forget_access()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    got: list[int] = []

    async with (
        httpx2.AsyncClient(auth=login.auth_of(place.server)) as client,
        trio.open_nursery() as nursery,
    ):

        async def one() -> None:
            got.append((await client.post(f"{place.it.url}/mcp", json=message)).status_code)

        for _ in range(4):
            nursery.start_soon(one)
    assert got == [200] * 4
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1


async def test_slow_reads_of_the_token_file_do_not_renew_a_token_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that reads the old time limit late must not make another one take the renewed token
    for an old one.
    """
    import httpx2

    await place.log_in()
    read = tokens.Kept.read
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for seed in range(10):
        chances = random.Random(seed)
        place.kept.update(until=time.time() - 1)

        def read_slowly(kept: tokens.Kept, chances: random.Random = chances) -> dict[str, Any]:
            found = read(kept)
            time.sleep(chances.choice([0.0, 0.0, 0.03, 0.06]))
            return found

        before = len(place.it.of("token"))
        with monkeypatch.context() as patch:
            patch.setattr(tokens.Kept, "read", read_slowly)
            auth = login.auth_of(place.server)
            async with httpx2.AsyncClient(auth=auth) as client, trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(partial(client.post, f"{place.it.url}/mcp", json=message))
        assert len(place.it.of("token")) == before + 1, f"seed {seed}"


@pytest.mark.parametrize(
    ("refusal", "registered"), [((400, "invalid_grant"), 1), ((401, "invalid_client"), 2)]
)
async def test_a_renewal_that_is_refused_wants_a_new_log_in(
    place: Place, refusal: tuple[int, str], registered: int
) -> None:
    """What is refused is forgotten.

    A client that the server does not know any more registers anew.
    """
    await place.log_in()
    place.it.forget_access()
    place.it.refusal = refusal
    with pytest.raises(NeedsUser, match="log in"):
        await place.use()
    assert not place.kept.read().get("tokens")
    with pytest.raises(NeedsUser):
        await place.use()
    assert [form["grant_type"] for form in place.it.of("token")].count("refresh_token") == 1
    assert await place.log_in() == "look"
    assert len(place.it.of("register")) == registered
    assert await place.use() == "look"


async def test_a_server_for_logging_in_that_is_ill_costs_no_log_in(place: Place) -> None:
    """The tokens stay, and renew when it is well again."""
    await place.log_in()
    place.it.forget_access()
    place.it.refusal = (503, "busy")
    with pytest.raises(ToolError, match=r"could not be renewed \(HTTP 503"):
        await place.use()
    place.it.refusal = None
    assert await place.use() == "look"


async def test_what_a_server_wants_more_is_asked_for_at_the_next_log_in(place: Place) -> None:
    """A session says so and opens no browser.

    The log-in asks for all of it, and then the call works.
    """
    await place.log_in()
    with pytest.raises((NeedsUser, ToolError), match="log in"):
        await place.use("change")
    assert len(place.it.of("authorize")) == 1
    assert set((await place.log_in()).split()) == {"look", "change"}
    assert await place.use("change")
    assert len(place.it.of("authorize")) == 2
    assert not place.kept.read().get("wanted")


async def test_a_call_that_wants_a_further_log_in_fails_alone(place: Place) -> None:
    await place.log_in()
    desk = Desk(place.folder, io.StringIO(), session=place.kit.session)
    entry = await desk.entry("docs")

    async def job(client: Any) -> str:
        with pytest.raises(MCPError):
            await client.call_tool("change", {})
        return str((await client.call_tool("look", {})).content[0].text)

    assert await reaching.once(desk, entry, job) == "look"
    assert place.kept.read().get("wanted") == "change"


async def test_the_address_where_the_browser_ended_can_be_pasted(place: Place) -> None:
    """For a browser on another machine. What has another state is not taken."""
    lines = trio.open_memory_channel[str](5)

    async def elsewhere(url: str) -> None:
        state = url.partition("state=")[2].partition("&")[0]
        place.it.codes["typed"] = dict(
            part.split("=", 1) for part in url.partition("?")[2].split("&")
        )
        place.it.codes["typed"]["resource"] = f"{place.it.url}/mcp"
        await lines[0].send("http://127.0.0.1:1/callback?code=typed&state=wrong")
        await lines[0].send(
            f"http://127.0.0.1:1/callback?code=typed&state={state}&iss={place.it.login}"
        )

    taken: list[bool] = []

    async def typed(take: Callable[[str], bool]) -> None:
        async for line in lines[1]:
            taken.append(take(line))

    assert await place.log_in(elsewhere, typed) == "look"
    assert taken == [False, True]


async def test_what_the_browser_brings_is_checked(place: Place) -> None:
    """Another issuer, a refusal, and nobody: each is told in a sentence, and nothing is kept."""
    place.it.issuer = "https://evil.example"
    with pytest.raises(ToolError, match="iss"):
        await place.log_in()

    async def refuse(url: str) -> None:
        state = url.partition("state=")[2].partition("&")[0]
        back = (
            url.partition("redirect_uri=")[2]
            .partition("&")[0]
            .replace("%3A", ":")
            .replace("%2F", "/")
        )
        await place.browse(f"{back}?error=access_denied&error_description=No+thanks&state={state}")

    with pytest.raises(ToolError, match="did not let you in: access_denied No thanks"):
        await place.log_in(refuse)
    assert not place.kept.read().get("tokens")


async def test_nobody_logs_in(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait has an end, and says what to do."""
    monkeypatch.setattr(login, "SECONDS", 0.05)

    async def nobody(url: str) -> None:
        return

    with pytest.raises(ToolError, match="Nobody logged in") as failure:
        await place.log_in(nobody)
    assert "hilum mcp login docs" in failure.value.hint


@pytest.mark.parametrize(
    ("metadata", "resource", "why"),
    [
        ({"token_endpoint": "https://10.0.0.1/token"}, {}, "not reached"),
        ({"registration_endpoint": "https://169.254.169.254/register"}, {}, "not reached"),
        ({"authorization_endpoint": "http://intern.example/authorize"}, {}, "not reached"),
        ({"issuer": "https://other.example"}, {}, "issuer"),
        (
            {"code_challenge_methods_supported": ["plain"]},
            {},
            "docs has you log in, takes no PKCE with S256",
        ),
        ({"code_challenge_methods_supported": []}, {}, "takes no PKCE with S256"),
        ({}, {"authorization_servers": ["https://192.168.0.1"]}, "not reached"),
        ({}, {"resource": "https://other.example/mcp"}, "does not match"),
    ],
)
async def test_a_server_cannot_send_a_log_in_elsewhere(
    place: Place, metadata: dict[str, object], resource: dict[str, object], why: str
) -> None:
    """To the user's network, to metadata services, to another issuer or resource.

    Nor without PKCE.
    """
    place.it.metadata, place.it.resource = metadata, resource
    with pytest.raises(HilumError, match=why):
        await place.log_in()
    assert not place.kept.read().get("tokens")


async def test_who_does_not_say_that_it_takes_pkce_is_not_logged_in_at_unless_the_user_knows_it(
    place: Place,
) -> None:
    """Providers that leave it out of their metadata are there.

    The protocol wants clients to refuse them.
    """
    place.it.metadata = {"code_challenge_methods_supported": None}
    with pytest.raises(HilumError) as failure:
        await place.log_in()
    said = str(failure.value)
    assert f"{place.it.login}, where docs has you log in" in said
    assert f'write "assume_pkce": true into oauth of docs in {sources.user_file()}' in said
    assert not place.shown, "the browser is not opened"
    place.describe(assumePkce=True)
    assert await place.log_in() == "look"
    place.it.metadata = {"code_challenge_methods_supported": ["plain"]}
    tokens.forget(place.server)
    with pytest.raises(HilumError, match="takes no PKCE"):
        await place.log_in()


async def test_who_has_no_metadata_does_not_say_that_it_takes_pkce(place: Place) -> None:
    place.it.metadata = {"issuer": None}
    with pytest.raises(HilumError, match="PKCE with S256"):
        await place.log_in()


async def test_the_address_is_checked_where_the_socket_is_opened(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is checked and this machine's a moment later leads nowhere."""
    from hilum_mcp import elsewhere

    port = place.it.login.rpartition(":")[2]

    async def yes(*_: object) -> None:
        return  # as if the name had stood for a public address

    async def resolve(host: str) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(elsewhere, "allow", yes)
    monkeypatch.setattr("hilum_web.connecting.resolve", resolve)
    place.it.resource = {"authorization_servers": [f"http://rebound.example:{port}"]}
    with pytest.raises(HilumError, match="not reached"):
        await place.log_in()
    assert not place.it.of("/.well-known/oauth-authorization-server")


@pytest.mark.parametrize(
    "pointer",
    ["http://10.0.0.1/x", "http://[::ffff:169.254.169.254]/x", "https://user@192.168.1.1/"],
)
async def test_metadata_is_not_looked_for_in_the_users_network(place: Place, pointer: str) -> None:
    """Where the server says that it stands is an address like any other."""
    place.it.pointer = pointer
    with pytest.raises(HilumError, match="not reached"):
        await place.log_in()


async def test_redirects_are_followed_on_one_origin_only(place: Place) -> None:
    """A moved document is found; one that is said to be elsewhere is not."""
    path = "/.well-known/oauth-authorization-server"
    place.it.moved = f"{path}?moved=1"
    assert await place.log_in() == "look"
    place.kept.update(tokens=None, metadata=None, client=None)
    place.it.moved = f"{place.it.url}{path}?moved=1"
    place.it.metadata = {"issuer": place.it.login}
    with pytest.raises(HilumError):
        await place.log_in()
    assert len(place.it.of(path)) == 3


async def test_a_document_that_is_too_large_is_not_read(place: Place) -> None:
    """A server cannot fill the memory with its metadata."""
    place.it.metadata = {"scopes_supported": ["x" * 1_000] * 1_100}
    with pytest.raises(HilumError, match="larger than 1 MB"):
        await place.log_in()


async def test_a_client_is_described_by_a_document_or_beforehand(place: Place) -> None:
    """The setting's document is the client's id where the server takes one.

    An id in the file comes before it.
    """
    place.it.metadata = {"client_id_metadata_document_supported": True}
    document = "https://hilum.example/client.json"
    await place.log_in(client_metadata_url=document)
    assert place.it.of("authorize")[-1]["client_id"] == document
    assert not place.it.of("register")
    place.describe(client_id="mine", issuer=place.it.login)
    await place.log_in(client_metadata_url=document)
    assert place.it.of("authorize")[-1]["client_id"] == "mine"
    place.describe(client_id="mine", issuer="https://other.example")
    with pytest.raises(HilumError, match=r"does not name https://other\.example"):
        await place.log_in()
    with pytest.raises(UsageError, match="client_metadata_url"):
        await place.log_in(client_metadata_url="http://x")


async def test_the_command_uses_the_setting_for_the_document(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a session does."""
    import io

    from hilum import config_folder

    place.it.metadata = {"client_id_metadata_document_supported": True}
    (config_folder() / "settings.toml").write_text(
        '[mcp]\nclient_metadata_url = "https://hilum.example/c.json"\n'
    )
    shown = trio.Event()

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if "state=" in text:
                shown.set()
            return super().write(text)

    out = Terminal()

    async def browse() -> None:
        await shown.wait()
        (url,) = [line.strip() for line in out.getvalue().splitlines() if line.startswith("  http")]
        await place.browse(url)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(browse)
        assert await managing.run(["login", "docs", "--no-browser"], Desk(place.folder, out)) == 0
    assert place.it.of("authorize")[-1]["client_id"] == "https://hilum.example/c.json"
    assert "docs lets you in: 2 tools." in out.getvalue()
    assert await managing.run(["logout", "docs"], Desk(place.folder, out)) == 0
    assert not tokens.file_of(place.server).exists()


async def test_a_port_that_is_taken(place: Place) -> None:
    """Another one is taken, and the client registers anew for it.

    But where the file names the port, that is told.
    """
    await place.log_in()
    port = login.port_of(place.server)
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with listener:
        place.kept.update(tokens=None)
        assert await place.log_in() == "look"
        assert len(place.it.of("register")) == 2
        place.describe(callback_port=port)
        with pytest.raises(UsageError, match=f"Port {port}") as failure:
            await place.log_in()
    assert "callback_port" in failure.value.hint


async def test_metadata_of_2025_03_26_may_name_a_path_of_its_own_origin(place: Place) -> None:
    """And nothing beyond it."""
    from hilum_mcp.oauth import Provider

    provider = Provider(place.server, place.kept, "http://127.0.0.1:1/callback")
    own = place.it.url

    async def issuer(**named: str) -> str:
        import httpx2

        data = {"issuer": f"{own}/oauth", "token_endpoint": f"{own}/oauth/token"} | named
        sent = httpx2.Request("GET", f"{own}/.well-known/oauth-authorization-server")
        return await provider._legacy_issuer(
            sent, httpx2.Response(200, content=json.dumps(data).encode(), request=sent)
        )

    assert await issuer() == f"{own}/oauth"
    assert await issuer(token_endpoint="https://evil.example/token") == ""
    assert await issuer(issuer="https://evil.example") == ""
    provider.context.auth_server_url = own
    assert await issuer() == ""
