"""What beyond the public network may be reached: this machine by its own names, and what the user
lists.
"""

import socket

import pytest
from hilum_web import Reach, check_url

NAMES = {
    "metadata.google.internal": ["169.254.169.254"],
    "router": ["192.168.1.1"],
    "localtest.me": ["127.0.0.1", "::1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "nothing.example": [],
}


def answer(host):
    return NAMES.get(host, ["93.184.215.14"])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:3000/", True), ("http://127.255.255.254/", True), ("http://[::1]:3000/", True),
        ("http://localhost:3000/", True),
        ("http://app.localhost/", True), ("http://[::ffff:127.0.0.1]/", True), ("http://localtest.me/", False),
        ("http://127.0.0.1.nip.io/", False),
        ("http://127.1/", False), ("http://2130706433/", False), ("http://0.0.0.0/", False), ("http://[::]/", False),
        ("http://[::127.0.0.1]/", False),
        ("http://[2002:7f00:1::]/", False), ("http://[64:ff9b::127.0.0.1]/", False), ("http://10.0.0.1/", False),
        ("http://169.254.169.254/", False),
        ("http://metadata.google.internal/", False), ("http://user@127.0.0.1/", False), ("http://public.example/", True),
    ],
)  # fmt: skip
def test_loopback_is_opened_by_its_own_names_only(url, allowed):
    """A page that calls itself the user's machine (rebinding) is none of the user's."""
    assert bool(check_url(url, answer, Reach(loopback=True))) is allowed


@pytest.mark.parametrize(
    ("entry", "url", "allowed"),
    [
        ("router", "http://router/", True), ("Router", "http://router:8080/", True), ("router:8080",
        "http://router:8080/", True),
        ("router:8080", "http://router/", False), ("router:80", "http://router/", True), ("router:443",
        "https://ROUTER/", True),
        ("router.", "http://router/", True), (" router ", "http://router./", True), ("192.168.1.1",
        "http://192.168.1.1/", True),
        ("192.168.1.1", "http://router/", False), ("192.168.1.1:81", "http://192.168.1.1/", False), ("fd00::1",
        "http://[fd00::1]/", True),
        ("[fd00::1]", "http://[fd00::1]/", True), ("FD00:0::1", "http://[fd00::1]:99/", True), ("[fd00::1]:99",
        "http://[fd00::1]:99/", True),
        ("[FD00:0::1]:99", "http://[fd00::1]:98/", False), ("route", "http://router/", False), ("uter",
        "http://router/", False),
        ("", "http://router/", False), ("*", "http://router/", False), ("[broken", "http://router/", False), ("a:b:c",
        "http://router/", False),
    ],
)  # fmt: skip
def test_list_of_hosts_is_read_as_people_write_it(entry, url, allowed):
    assert bool(check_url(url, answer, Reach(hosts=frozenset({entry})))) is allowed


def test_name_that_is_not_found_says_so():
    def fails(host):
        raise socket.gaierror(-2, "Name or service not known")

    assert (
        check_url("http://public.example/", fails).reason
        == "public.example was not found: Name or service not known."
    )
    assert (
        check_url("http://nothing.example/", answer).reason
        == "nothing.example was not found: it has no address."
    )


def test_neither_this_machine_nor_an_address_is_asked_for():
    def never(host):
        raise AssertionError(host)

    for url in (
        "http://localhost/",
        "http://x.localhost./",
        "http://8.8.8.8/",
        "http://[2606:4700::1111]/",
        "http://127.1/",
        "http://x@y/",
    ):
        check_url(url, never)
