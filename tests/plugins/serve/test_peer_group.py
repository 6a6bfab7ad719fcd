"""What the servers of a group prove to each other, and which addresses they accept."""

import secrets
import time

import pytest
from hilum import UsageError
from hilum_serve.peer_group import PeerAddress, PeerGroup, parse_address
from hilum_serve.tokens import COOKIE_SECONDS, Tokens, add_token

KEY = "k" * 32


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8722", PeerAddress("http", "127.0.0.1", 8722)),
        ("http://localhost:1/", PeerAddress("http", "localhost", 1)),
        ("http://10.1.2.3", PeerAddress("http", "10.1.2.3", 80)),
        ("http://[fd00::1]:8722", PeerAddress("http", "fd00::1", 8722)),
        ("https://Host.example", PeerAddress("https", "host.example", 443)),
    ],
)
def test_addresses_are_read(url, expected):
    found = parse_address(url)
    assert found == expected
    assert parse_address(found.url) == found


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.1:8722",
        "file:///etc/passwd",
        "gopher://10.0.0.1",
        "http://10.0.0.1/path",
        "http://10.0.0.1?query",
        "http://10.0.0.1#fragment",
        "http://eva@10.0.0.1",
        "http://10.0.0.1@evil.example",
        "http://10.0.0.1:0",
        "http://10.0.0.1:99999",
        "http://0.0.0.0:80",
        "http://[::]:80",
        "http://224.0.0.1",
        "http://",
        "https://evil.example\r\nhost:x",
        "https://evil .example",
        "https://%31",
        "http://8.8.8.8",
        "http://169.254.169.254",
        "http://host.example",
        "http://localhost.evil.example",
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(UsageError):
        parse_address(url)


def test_plain_http_on_a_trusted_network_must_be_allowed():
    assert parse_address("http://hilum-0.hilum:8722", plain_http=True).host == "hilum-0.hilum"
    group = PeerGroup("http://10.0.0.1:1", KEY)
    far = PeerGroup("http://hilum-0.hilum:1", KEY, plain_http=True)
    assert group.read_announcement(far.announcement) is None
    assert far.read_announcement(far.announcement) == far.own


def test_only_signed_addresses_count():
    one = PeerGroup("http://10.0.0.1:1", KEY)
    two = PeerGroup("http://10.0.0.2:2", KEY)
    foreign = PeerGroup("http://10.0.0.2:2", "x" * 32)
    assert one.read_announcement(two.announcement) == two.own
    signature = two.announcement.split()[1]
    for text in (
        "",
        "http://10.0.0.2:2",
        foreign.announcement,
        f"http://10.0.0.3:2 {signature}",
        f"{two.announcement} ",
        f"http://10.0.0.2:2 {signature[:-1]}é",
        "\udc80 \udc80",
    ):
        assert one.read_announcement(text) is None, text


def test_a_proof_is_for_one_server_and_one_nonce():
    one = PeerGroup("http://10.0.0.1:1", KEY)
    two = PeerGroup("http://10.0.0.2:2", KEY)
    nonce = secrets.token_hex(32).encode()
    proof = two.answer_nonce(nonce)
    assert one.is_proof(proof, nonce, two.own)
    assert not one.is_proof(proof, nonce, one.own)
    assert not one.is_proof(proof, secrets.token_hex(32).encode(), two.own)
    assert not one.is_proof("é", nonce, two.own)
    assert two.answer_nonce(b"short") == ""
    assert two.answer_nonce(b"a" * 63 + b"\n") == ""


def test_only_signed_logouts_count():
    one = PeerGroup("http://10.0.0.1:1", KEY)
    two = PeerGroup("http://10.0.0.2:2", KEY)
    notice = two.make_logout_notice(17)
    assert one.read_logout_notice(notice) == 17
    for text in (
        "",
        "logout 17",
        notice.replace("17", "18"),
        notice.replace("logout", "other"),
        PeerGroup("http://10.0.0.1:1", "x" * 32).make_logout_notice(17),
        "logout é \udc80",
    ):
        assert one.read_logout_notice(text) is None, text


def test_only_servers_of_the_group_mark_requests_as_passed_on():
    one = PeerGroup("http://10.0.0.1:1", KEY)
    two = PeerGroup("http://10.0.0.2:2", KEY)
    mark = one.make_mark(two.own).decode()
    assert two.is_mark(mark)
    # It is for one server.
    assert not one.is_mark(mark)
    foreign = PeerGroup("http://10.0.0.1:1", "x" * 32).make_mark(two.own).decode()
    for text in ("", "1", mark[:-1], f"0{mark}", foreign, "é \udc80"):
        assert not two.is_mark(text), text


def test_notices_of_servers_with_another_key_are_recognized():
    one = PeerGroup("http://10.0.0.1:1", KEY)
    two = PeerGroup("http://10.0.0.2:2", KEY)
    foreign = PeerGroup("http://10.0.0.3:3", "x" * 32)
    assert one.read_foreign_notice(two.make_presence_notice()) == ""
    assert one.read_foreign_notice(foreign.make_presence_notice()) == "http://10.0.0.3:3"
    assert one.read_foreign_notice(foreign.make_logout_notice(17)) == ""
    assert one.read_logout_notice(foreign.make_presence_notice()) is None


def test_a_short_key_is_refused():
    with pytest.raises(UsageError, match=r"serve\.peer_key"):
        PeerGroup("http://10.0.0.1:1", "k" * 31)


def test_servers_with_one_key_accept_each_others_cookies(tmp_path, monkeypatch):
    file = tmp_path / "tokens.json"
    token = add_token(file, "eva", "watch")
    key = PeerGroup("http://10.0.0.1:1", KEY).cookie_key
    assert key == PeerGroup("http://10.0.0.2:2", KEY).cookie_key
    one = Tokens(file, "start of one", cookie_key=key)
    two = Tokens(file, "start of two", cookie_key=key)
    user = one.find_user(token)
    secret = one.make_cookie(user)
    assert two.find_cookie_user(secret) == user
    assert Tokens(file, "").find_cookie_user(secret) is None
    assert two.find_cookie_user(one.make_cookie(one.find_user("start of one"))) is None
    other = two.make_cookie(user)
    number = one.find_cookie_number(secret)
    assert one.end_cookie(number)
    assert not one.end_cookie(number)
    # Whoever repeats a logout that the other servers do not know of still has to be recognized.
    assert one.find_cookie_number(secret) == number
    assert one.find_cookie_number(f"{number}-0.0") is None
    assert one.find_cookie_user(secret) is None
    assert one.find_cookie_user(other) == user
    logged_in = two.find_cookie_user(other)
    assert two.is_valid(logged_in)
    late = time.time() + COOKIE_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: late)
    assert two.find_cookie_user(other) is None
    assert not two.is_valid(logged_in)
    assert two.is_valid(user)
