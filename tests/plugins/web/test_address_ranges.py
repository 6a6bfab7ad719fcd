"""Random addresses of all ranges, in random notations, against the registries read by other means:
longest match of a text.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx
import pytest
from hilum_web import METADATA, Reach, check_url, parse_url
from hilum_web.addresses import explain_refusal
from hypothesis import given
from hypothesis import strategies as st

# The IANA special-purpose registries, IPv4 and IPv6, column "Globally Reachable"; "N/A" is no.
# Multicast has registries of its own; of IPv6 nothing but 2000::/3 is allocated as global unicast.
REGISTRY = """
0.0.0.0/0 yes; 0.0.0.0/8 no; 0.0.0.0/32 no; 10.0.0.0/8 no; 100.64.0.0/10 no; 127.0.0.0/8 no; 169.254.0.0/16 no;
172.16.0.0/12 no; 192.0.0.0/24 no; 192.0.0.0/29 no; 192.0.0.8/32 no; 192.0.0.9/32 yes; 192.0.0.10/32 yes;
192.0.0.170/31 no; 192.0.2.0/24 no; 192.31.196.0/24 yes; 192.52.193.0/24 yes; 192.88.99.0/24 no;
192.168.0.0/16 no; 192.175.48.0/24 yes; 198.18.0.0/15 no; 198.51.100.0/24 no; 203.0.113.0/24 no;
224.0.0.0/4 no; 240.0.0.0/4 no; 255.255.255.255/32 no; ::/0 no; 2000::/3 yes; ::1/128 no; ::/128 no;
64:ff9b:1::/48 no; 100::/64 no; 100:0:0:1::/64 no; 2001::/23 no; 2001::/32 no; 2001:1::1/128 yes;
2001:1::2/128 yes; 2001:1::3/128 yes; 2001:2::/48 no; 2001:3::/32 yes; 2001:4:112::/48 yes; 2001:10::/28 no;
2001:20::/28 yes; 2001:30::/28 yes; 2001:db8::/32 no; 2620:4f:8000::/48 yes; 3fff::/20 no; 5f00::/16 no;
fc00::/7 no; fe80::/10 no
"""
ROWS = [(ip_network(row.split()[0]), row.split()[1] == "yes") for row in REGISTRY.split(";")]
SERVICES = (
    "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 192.0.0.192 100.100.100.200 100.96.0.96 169.254.0.23"
    " 169.254.10.10 169.254.42.42 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fe80::a9fe:a9fe"
    " fd00:42::42 fd00:a9fe:a9fe::1"
).split()


def registered(address):
    """Whether the row with the longest prefix calls an address globally reachable."""
    return max((network.prefixlen, reachable) for network, reachable in ROWS if address in network)[
        1
    ]


def reachable(address):
    """Whether an address is public, and every IPv4 address in it is as well.

    By its written groups, not by shifts.
    """
    if str(address) in SERVICES:
        return False
    if address.version == 4:
        return registered(address)
    groups = address.exploded.replace(":", "")
    last = ip_address(bytes.fromhex(groups[24:]))
    if groups.startswith(("0" * 20 + "ffff", "0064ff9b" + "0" * 16)):
        return reachable(last)
    inner = [IPv4Address(bytes.fromhex(groups[4:12]))] if groups.startswith("2002") else []
    if groups[16:24] in ("00005efe", "02005efe"):
        inner.append(last)
    return registered(address) and all(map(reachable, inner))


def edges():
    """Give the first and the last address of every range, and their neighbours outside it."""
    for network, _ in ROWS:
        for number in (
            int(network[0]) - 1,
            int(network[0]),
            int(network[-1]),
            int(network[-1]) + 1,
        ):
            if 0 <= number < 1 << network.max_prefixlen:
                yield (IPv4Address if network.version == 4 else IPv6Address)(number)


def within(network):
    kind = IPv4Address if network.version == 4 else IPv6Address
    return st.integers(int(network[0]), int(network[-1])).map(kind)


ADDRESSES = st.one_of(
    st.sampled_from([network for network, _ in ROWS]).flatmap(within),
    st.sampled_from(list(edges())),
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.sampled_from(SERVICES).map(ip_address),
)
FOUR = ADDRESSES.filter(lambda address: address.version == 4)


def wrap(four, how, filler):
    """Put an IPv4 address into an IPv6 one, as a standard says."""
    number = int(four)
    return IPv6Address(
        {
            "compatible": number,
            "mapped": 0xFFFF << 32 | number,
            "translated": 0xFFFF << 48 | number,
            "nat64": 0x64FF9B << 96 | number,
            "local": 0x64FF9B0001 << 80 | (filler & 0xFFFFFFFFFFFF) << 32 | number,
            "6to4": 0x2002 << 112 | number << 80 | filler & (1 << 80) - 1,
            "teredo": 0x20010000 << 96 | (filler & (1 << 64) - 1) << 32 | number ^ 0xFFFFFFFF,
            "isatap": 1 << 125 | (filler & (1 << 61) - 1) << 64 | 0x5EFE << 32 | number,
            "isatap-u": 1 << 125 | (filler & (1 << 61) - 1) << 64 | 0x2005EFE << 32 | number,
        }[how]
    )


WRAPPED = st.builds(
    wrap, FOUR,
    st.sampled_from("compatible mapped translated nat64 local 6to4 teredo isatap isatap-u".split()),
    st.integers(0, 2**80 - 1),
)  # fmt: skip


@given(st.one_of(ADDRESSES, WRAPPED))
def test_address_is_judged_as_the_registries_say(address):
    assert (explain_refusal(address) == "") is reachable(address)


def test_edges_of_every_range_are_judged_as_the_registries_say():
    assert [
        str(each) for each in edges() if (explain_refusal(each) == "") is not reachable(each)
    ] == []
    assert sum(map(reachable, edges())) > 40
    assert {str(each) for each in METADATA} == set(SERVICES)


@given(st.sampled_from(SERVICES).map(ip_address).filter(lambda a: a.version == 4), st.data())
def test_no_list_opens_a_metadata_service_inside_another_address(four, data):
    how = data.draw(
        st.sampled_from(
            "compatible mapped translated nat64 local 6to4 teredo isatap isatap-u".split()
        )
    )
    address = wrap(four, how, data.draw(st.integers(0, 2**80 - 1)))
    assert (
        explain_refusal(address, Reach(loopback=True), listed=True)
        == "the metadata service of a cloud"
    )


def written(address, draw):
    """Write an address in one of the plain notations."""
    if address.version == 4:
        return str(address)
    text = draw(st.sampled_from([address.compressed, address.exploded]))
    if draw(st.booleans()):
        head = ":".join(address.exploded.split(":")[:6])
        text = f"{head}:{IPv4Address(int(address) & 0xFFFFFFFF)}"
    return "[" + "".join(draw(st.sampled_from([each, each.upper()])) for each in text) + "]"


@given(st.one_of(ADDRESSES, WRAPPED), st.data())
def test_plain_notation_of_any_address_is_allowed_where_it_is_public(address, data):
    url = (
        data.draw(st.sampled_from(["http", "HTTPS", "https"])) + "://" + written(address, data.draw)
    )
    url += data.draw(st.sampled_from(["", "/", ":8443/x", ":80", "?x=@10.0.0.1", "#x"]))
    verdict = check_url(url)
    assert bool(verdict) is reachable(address), verdict.reason
    assert not verdict or [ip_address(each) for each in verdict.addresses] == [address]


def number(value, draw):
    style = draw(st.sampled_from(["d", "x", "X", "o"]))
    zeros = "0" * draw(st.integers(0, 3))
    return {
        "d": str(value),
        "x": f"0x{zeros}{value:x}",
        "X": f"0X{zeros}{value:X}",
        "o": f"0{zeros}{value:o}",
    }[style]


@given(FOUR, st.data())
def test_odd_notation_of_any_address_is_refused(address, data):
    """Whatever inet_aton would take: one to four numbers in any base, the last one filling what is
    left.
    """
    parts = data.draw(st.integers(1, 4))
    octets = list(address.packed[: parts - 1])
    last = int(address) & (1 << 8 * (5 - parts)) - 1
    text = ".".join(number(each, data.draw) for each in [*octets, last])
    if data.draw(st.booleans()):
        text = "".join(
            chr(0xFF10 + int(each)) if each.isdecimal() and data.draw(st.booleans()) else each
            for each in text
        )
        text = text.replace(".", data.draw(st.sampled_from([".", "。", "．", "｡"])))
    if text == str(address):
        text += "."
    verdict = check_url(f"http://{text}/", lambda host: pytest.fail(f"{host} was looked up"))
    assert not verdict


LETTERS = list(
    "az019x.-_:%@[]/\\?#&;,'\"<>{}|^`~!$()*+= \t\n\r\0é。．⑦\u00ad\u200b\ud800\uff10ſK℀ß"
)
HOSTS = st.text(st.sampled_from(LETTERS), max_size=25)
# Built from code points: the strategy for any text first computes tables of Unicode's categories,
# which takes longer than all examples.
ANY_TEXT = st.lists(st.integers(0, 0x10FFFF).map(chr), max_size=20).map("".join)
PUNYCODE = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789-"), min_size=1, max_size=20
)


@given(
    st.one_of(
        HOSTS,
        ANY_TEXT,
        HOSTS.map(lambda each: f"{each}.example"),
        PUNYCODE.map(lambda each: f"xn--{each}"),
    )
)
def test_no_text_breaks_the_reader_and_httpx_reads_the_same_host(host):
    url = f"http://{host}/"
    try:
        target = parse_url(url)
    except ValueError:
        return
    other = httpx.URL(target.url)
    assert other.raw_host.decode().strip("[]") == target.host
    assert (other.port or 80) == target.port
    assert other.scheme == "http"
    assert not other.userinfo
    assert parse_url(target.url) == target
    assert not any(each in target.host for each in "@/\\?#% ")
