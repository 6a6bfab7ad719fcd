"""What the client connects to, seen at the socket: redirects, names that change, proxies.

Nothing forbidden ever is.
"""

import socket

import httpcore
import httpx
import pytest
import trio
from hilum_web import AddressRefused, InvalidUrl, Reach, UnknownHost, open_client, resolve_url
from hilum_web.http_client import STAGGER, CheckedBackend

PUBLIC, PUBLIC6, OTHER = "93.184.215.14", "2606:4700::1111", "140.82.112.3"
NAMES = {
    "private.example": [["10.0.0.1"]],
    "loop.example": [["127.0.0.1", "::1"]],
    "metadata.example": [["169.254.169.254"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "nat64.example": [["64:ff9b::a9fe:a9fe"]],
    "mixed.example": [[PUBLIC, "10.0.0.1"]],
    "mixed-back.example": [["fd00::1", PUBLIC]],
    "zone.example": [["fe80::1%lo"]],
    "azure.example": [["168.63.129.16"]],
}
TARGETS = [
    *(f"http://{name}/" for name in NAMES),
    *(f"https://{name}/" for name in NAMES),
    "http://127.0.0.1/", "http://127.0.0.1:80/", "https://127.0.0.1:8443/", "http://10.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost/", "http://LOCALHOST:6379/", "http://app.localhost/", "http://localhost./", "http://0.0.0.0/",
    "http://0/",
    "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://0177.0.0.1/", "http://127.1/", "http://0x7f.1/",
    "http://127.0.0.1./", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[fd00::1]/", "http://[fe80::1%25lo]/",
    "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://168.63.129.16/", "http://100.100.100.200/",
    "//127.0.0.1/", "//10.0.0.1:80/", "///127.0.0.1/",
    "http:///127.0.0.1/", "http:/\\127.0.0.1/", "\\\\127.0.0.1\\", "http:\\\\127.0.0.1/", "http://u:p@127.0.0.1/",
    "http://public.example@127.0.0.1/",
    "http://127%2e0.0.1/", "http://%31%32%37.0.0.1/", "file:///etc/passwd", "ftp://127.0.0.1/",
    "gopher://127.0.0.1/", "unix:///run/x",
    "http://127.0.0.1:99999/", "http://unknown/",
]  # fmt: skip
FAILS = (AddressRefused, httpx.HTTPError, httpx.InvalidURL)


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_a_forbidden_connection(network, status):
    network.names |= NAMES
    reached = []
    async with open_client(timeout=5) as client:
        for target in TARGETS:
            start = f"http://start.example/to/{status}/{target}"
            for method in ("GET", "POST"):
                try:
                    response = await client.request(
                        method, start, follow_redirects=True, content=b"x" * (method == "POST")
                    )
                except FAILS:
                    continue
                reached.append((target, str(response.url)))
    assert network.forbidden == []
    # What is no address of anybody to httpx is a path on the same site.
    assert {url.split("/")[2] for _, url in reached} <= {"start.example"}, reached
    assert {host for host, _, _ in network.served} == {"start.example"}


async def test_chain_of_redirects_is_checked_at_each_step(network):
    inner = "http://c.example/to/302/http://localhost:8000/admin"
    async with open_client() as client:
        with pytest.raises(
            AddressRefused,
            match=r"^localhost resolves to 127\.0\.0\.1, an address of this machine\.$",
        ):
            await client.get(
                f"http://a.example/to/301/http://b.example/to/307/{inner}", follow_redirects=True
            )
    assert [host for host, _, _ in network.served] == ["a.example", "b.example", "c.example"]
    assert network.forbidden == []


async def test_redirect_is_handed_over_and_a_refresh_is_only_a_header(network):
    async with open_client() as client:
        response = await client.get("http://a.example/to/302/http://10.0.0.1/")
        assert (response.status_code, response.headers["location"]) == (302, "http://10.0.0.1/")
        response = await client.get(
            "http://a.example/refresh/http://10.0.0.1/", follow_redirects=True
        )
        assert response.text == "hello"
    assert network.forbidden == []


@pytest.mark.parametrize("target", [each for each in TARGETS if each.startswith("http")])
async def test_no_request_connects_to_what_is_forbidden(network, target):
    network.names |= NAMES
    async with open_client(timeout=5) as client:
        with pytest.raises(FAILS):
            await client.get(target)
    assert network.connects == []


async def test_name_that_turns_private_after_the_check_is_refused(network):
    """Rebinding: the answer has no time to live, and the next one names the user's machine."""
    network.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"]]
    await resolve_url("http://rebind.example/")
    async with open_client() as client:
        with pytest.raises(AddressRefused, match=r"^rebind\.example resolves to 127\.0\.0\.1,"):
            await client.get("http://rebind.example/")
    assert network.connects == []


async def test_address_that_was_checked_is_the_one_connected_to(network):
    """Between the check and the socket nothing is asked for again."""
    network.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"], ["10.0.0.1"]]
    async with open_client() as client:
        assert (await client.get("http://rebind.example:81/x")).text == "hello"
        assert (await client.get("http://rebind.example:81/close")).text == "hello"
        assert network.asked == ["rebind.example"]
        assert network.served == [
            ("rebind.example:81", "/x", 1),
            ("rebind.example:81", "/close", 1),
        ]
        # The connection that was checked is gone: the next one is checked again.
        with pytest.raises(AddressRefused):
            await client.get("http://rebind.example:81/x")
    assert network.connects == [(PUBLIC, 81)]


async def test_name_that_swaps_during_redirects_is_refused(network):
    network.names["rebind.example"] = [[PUBLIC], ["169.254.169.254"]]
    async with open_client() as client:
        with pytest.raises(AddressRefused, match="the metadata service of a cloud"):
            await client.get(
                "http://rebind.example/to/302/https://rebind.example/latest", follow_redirects=True
            )
    assert network.connects == [(PUBLIC, 80)]


async def test_no_connection_is_shared_between_hosts(network):
    """Two names at one address: each has its own connection, so one that is private has none to
    borrow.
    """
    network.names |= {
        "one.example": [[PUBLIC]],
        "two.example": [[PUBLIC]],
        "private.example": [["10.0.0.1"]],
    }
    async with open_client() as client:
        for host in ("one.example", "two.example", "one.example"):
            assert (await client.get(f"http://{host}/")).text == "hello"
        with pytest.raises(AddressRefused):
            await client.get("http://private.example/", headers={"Host": "one.example"})
    assert [number for _, _, number in network.served] == [1, 2, 1]
    assert network.forbidden == []


@pytest.mark.skipif(not socket.has_ipv6, reason="Python was built without IPv6")
async def test_public_address_of_ipv6_is_connected_to(network):
    network.names["six.example"] = [[PUBLIC6]]
    async with open_client() as client:
        for url in (
            "http://six.example/",
            f"http://[{PUBLIC6}]:81/",
            f"http://[{PUBLIC6.upper()}]:81/",
        ):
            assert (await client.get(url)).text == "hello"
    assert network.connects == [(PUBLIC6, 80), (PUBLIC6, 81)]


async def test_environment_gives_neither_a_proxy_nor_credentials(network, monkeypatch, tmp_path):
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.setenv(name, "http://10.9.9.9:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    (tmp_path / "netrc").write_text("machine a.example login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with open_client() as client:
        assert (await client.get("http://a.example/")).text == "hello"
        with pytest.raises(AddressRefused):
            await client.get("http://10.9.9.9:3128/")
    assert network.connects == [(PUBLIC, 80)]
    assert "authorization" not in network.headers[0]


@pytest.mark.parametrize(
    "name", ["proxy", "mounts", "transport", "trust_env", "verify", "cert", "http2", "limits"]
)
def test_option_that_would_go_round_the_check_is_refused(name):
    with pytest.raises(TypeError, match=name):
        open_client(**{name: None})


async def test_socket_of_this_machine_is_refused():
    with pytest.raises(AddressRefused):
        await CheckedBackend(Reach()).connect_unix_socket("/run/docker.sock")


async def test_user_s_list_and_loopback_open_what_they_say(network):
    network.hosts |= {"10.0.0.1", "127.0.0.1"}
    network.names |= {
        "box": [["10.0.0.1"]],
        "loop.example": [["127.0.0.1"]],
        "meta": [["169.254.169.254"]],
    }
    async with open_client(Reach(loopback=True, hosts=frozenset({"box:8080", "meta"}))) as client:
        assert (await client.get("http://box:8080/")).text == "hello"
        assert (await client.get("http://localhost:3000/")).text == "hello"
        assert (await client.get("http://127.0.0.1:3000/")).text == "hello"
        for url in ("http://box/", "http://10.0.0.1:8080/", "http://loop.example/", "http://meta/"):
            with pytest.raises(AddressRefused):
                await client.get(url)
    assert network.connects == [("10.0.0.1", 8080), ("127.0.0.1", 3000), ("127.0.0.1", 3000)]
    assert "localhost" not in network.asked


async def test_kinds_of_refusals_are_told_apart(network):
    network.names["broken.example"] = [[]]
    for url, kind in (
        ("http://broken.example/", UnknownHost), ("http://127.1/", InvalidUrl), ("ftp://a.example/", InvalidUrl),
        ("http://10.0.0.1/", AddressRefused), ("http://localhost/", AddressRefused),
    ):  # fmt: skip
        with pytest.raises(AddressRefused) as caught:
            await resolve_url(url)
        assert type(caught.value) is kind
    target, _ = await resolve_url("HTTP://A.example:80/x#y")
    assert (target.url, target.host, target.port) == ("http://a.example/x", "a.example", 80)


class Line(httpcore.AsyncNetworkStream):
    """A connection that somebody has to close."""

    def __init__(self, address):
        self.address, self.closed = address, False

    async def aclose(self):
        self.closed = True


class Roads(httpcore.AsyncNetworkBackend):
    """Addresses that answer after a while, never, or with a failure; and when each was tried."""

    def __init__(self, roads):
        self.roads, self.tried, self.lines, self.start = roads, [], [], trio.current_time()

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.tried.append((host, round(trio.current_time() - self.start, 3)))
        after = self.roads[host]
        if after is None:
            raise httpcore.ConnectError(f"{host} refuses")
        await trio.sleep(after)
        self.lines.append(Line(host))
        return self.lines[-1]


async def drive(network, roads, timeout=None):
    network.names["many.example"] = [list(roads)]
    backend = CheckedBackend(Reach())
    backend._inner = Roads(roads)
    try:
        return await backend.connect_tcp("many.example", 80, timeout), backend._inner
    except httpcore.TimeoutException as error:
        return error, backend._inner
    except httpcore.NetworkError as error:
        return error, backend._inner


A, B, C = "8.8.8.8", "9.9.9.9", "1.1.1.1"
SIX, SEVEN = "2606:4700::1", "2606:4700::2"


async def test_silent_address_gives_way_to_the_other_family(network, autojump_clock):
    """A machine whose IPv6 leads nowhere: the second try is IPv4, and comes soon."""
    line, roads = await drive(network, {SIX: 1e9, SEVEN: 1e9, A: 0.1})
    assert line.address == A
    assert roads.tried == [(SIX, 0.0), (A, STAGGER)]


async def test_refusing_address_gives_way_at_once_and_all_refusing_say_why(network, autojump_clock):
    line, roads = await drive(network, {A: None, B: None, C: 0})
    assert line.address == C
    assert roads.tried == [(A, 0.0), (B, 0.0), (C, 0.0)]
    error, _ = await drive(network, {A: None, B: None})
    assert isinstance(error, httpcore.ConnectError)


async def test_time_limit_is_for_all_addresses_together(network, autojump_clock):
    error, roads = await drive(network, {A: 1e9, B: 1e9, C: 1e9}, timeout=3)
    assert isinstance(error, httpcore.ConnectTimeout)
    assert str(error) == "many.example did not accept a connection within 3 s"
    assert trio.current_time() - roads.start == pytest.approx(3)


async def test_only_one_connection_is_kept(network, autojump_clock):
    """Two that answer in the same moment: the later one is closed."""
    line, roads = await drive(network, {A: 1.0, B: 1.0 - STAGGER})
    assert not line.closed
    assert [each.closed for each in roads.lines if each is not line] == [True] * (
        len(roads.lines) - 1
    )


async def test_connection_of_a_cancelled_request_is_closed(network, autojump_clock):
    network.names["many.example"] = [[A, B]]
    backend = CheckedBackend(Reach())
    backend._inner = roads = Roads({A: 1e9, B: 1e9})
    with trio.move_on_after(1):
        await backend.connect_tcp("many.example", 80)
    assert [host for host, _ in roads.tried] == [A, B]
    assert all(line.closed for line in roads.lines)
