"""Ports, Host headers and signals of the commands that serve."""

import errno
import os
import signal
import socket

import pytest
import trio
from hilum import UsageError
from hilum.errors import E_PORT
from hilum.listening import allowed_hosts, format_host, listen, parse_port, receive_stop_signals


def test_a_port_is_a_number_in_range():
    assert [parse_port(text) for text in ("0", "80", "65535")] == [0, 80, 65_535]
    for text in ("", "-1", "65536", "²", "1e3", "9" * 5_000, "http"):
        with pytest.raises(UsageError, match="is not a port"):
            parse_port(text)


def test_a_taken_port_is_reported_with_the_option_to_change():
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(UsageError, match="cannot be used") as refusal,
    ):
        listen("127.0.0.1", taken.getsockname()[1], option="--http")
    assert refusal.value.code == E_PORT
    assert "--http" in refusal.value.hint
    assert refusal.value.__cause__.errno == errno.EADDRINUSE


def test_an_address_of_another_machine_is_reported():
    with pytest.raises(UsageError, match="cannot be used"):
        listen("192.0.2.1", 0)


def test_a_port_can_be_used_again_at_once():
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    first.setblocking(True)
    first.accept()[0].close()
    client.close()
    first.close()
    listen("127.0.0.1", port).close()


def test_the_hosts_of_an_address():
    own = {"127.0.0.1:8", "localhost:8", "[::1]:8"}
    assert set(allowed_hosts("127.0.0.1", 8)) == own
    assert set(allowed_hosts("0.0.0.0", 8, ["Name:9"])) == own | {"name:9"}
    assert set(allowed_hosts("fe80::1", 8)) == own | {"[fe80::1]:8"}
    assert "localhost" in allowed_hosts("::1", 80)
    assert format_host("::1") == "[::1]"


async def test_a_signal_stops_once(monkeypatch):
    stopped = []
    signalled = trio.Event()
    ended = trio.Event()

    def stop(number):
        stopped.append(number)
        signalled.set()

    def end(status):
        stopped.append(status)
        ended.set()

    monkeypatch.setattr(os, "_exit", end)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(receive_stop_signals, stop)
            os.kill(os.getpid(), signal.SIGTERM)
            await signalled.wait()
            assert stopped == [signal.SIGTERM]
            os.kill(os.getpid(), signal.SIGTERM)
            await ended.wait()
            nursery.cancel_scope.cancel()
    # The real `_exit` does not return.
    assert stopped[:2] == [signal.SIGTERM, 128 + signal.SIGTERM]
