"""The client of the fork server ends properly when the server is killed."""

import socket
import sys

import pytest
from hilum.fork_client import _Handover

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux")


@pytest.fixture
def connection():
    """A client and the server's end of its connection."""
    client = _Handover("", [])
    client.close()
    ours, theirs = socket.socketpair()
    client._socket = ours
    with ours, theirs:
        yield client, theirs


def test_a_server_that_was_killed_before_it_read_a_signal(connection, capfd):
    """The system then resets the connection, instead of ending it."""
    client, server = connection
    client._socket.sendall(b"\x0f")
    server.close()
    assert client._wait() == 143
    assert capfd.readouterr().err == "hilum: the fork server ended, and this command with it.\n"


@pytest.mark.parametrize("sent", [b"", b"exit", b"exit 3", b"stop"])
def test_a_server_that_ends_in_the_middle_of_a_line(connection, capfd, sent):
    client, server = connection
    server.sendall(sent)
    server.close()
    assert client._wait() == 143
    assert "the fork server ended" in capfd.readouterr().err


def test_an_exit_code_is_returned(connection):
    client, server = connection
    server.sendall(b"exit 3\n")
    assert client._wait() == 3
