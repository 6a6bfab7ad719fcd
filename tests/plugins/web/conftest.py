"""A network of one's own: names that a test answers for, public addresses that are servers here, every connect on record."""

import errno
import socket
from functools import partial

import pytest
import trio

PUBLIC, PUBLIC6, OTHER = "93.184.215.14", "2606:4700::1111", "140.82.112.3"


class Network(trio.abc.HostnameResolver):
    """What the tests' world is made of.

    Attributes:
        names: For each name its answers, one for each time it is asked for; the last one stays.
        asked: The names that were asked for.
        connects: Every address and port that a TCP socket was told to connect to.
        served: Host and path of each request that a server got, and the number of its connection.
        hosts: Addresses at which a server listens; everything else refuses.
        headers: The raw head of each request.
    """

    def __init__(self):
        self.names, self.asked, self.connects, self.served, self.headers = {}, [], [], [], []
        self.hosts = {PUBLIC, PUBLIC6, OTHER}
        self.port, self.count = 0, 0

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        await trio.lowlevel.checkpoint()
        answers = self.names.get(name, [[PUBLIC]] if name.endswith(".example") else [[]])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 0))
            for each in answer
        ]

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError("nobody asks for the name of an address")

    def connect(self, real, sock, address):
        """Take the place of ``socket.connect``: a public address is our server, all others refuse."""
        if sock.type != socket.SOCK_STREAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return real(sock, address)
        self.connects.append((address[0], address[1]))
        if address[0] not in self.hosts:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        if sock.family == socket.AF_INET6:
            return real(sock, ("::ffff:127.0.0.1", self.port))
        return real(sock, ("127.0.0.1", self.port))

    async def serve(self, stream):
        """Answer HTTP/1.1: ``/to/STATUS/URL`` redirects, ``/refresh/URL`` too, by a header; ``/close`` hangs up."""
        self.count += 1
        number, data = self.count, b""
        async with stream:
            while True:
                while b"\r\n\r\n" not in data:
                    if not (chunk := await stream.receive_some(65536)):
                        return
                    data += chunk
                head, _, data = data.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                path = lines[0].split(" ")[1]
                fields = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:]}
                while len(data) < int(fields.get("content-length", 0)):
                    data += await stream.receive_some(65536)
                data = data[int(fields.get("content-length", 0)) :]
                self.served.append((fields["host"], path, number))
                self.headers.append(fields)
                status, more = "200 OK", ""
                if path.startswith("/to/"):
                    _, _, status, where = path.split("/", 3)
                    status, more = f"{status} Moved", f"Location: {where}\r\n"
                elif path.startswith("/refresh/"):
                    more = f"Refresh: 0;url={path[9:]}\r\n"
                if path == "/close":
                    more = "Connection: close\r\n"
                await stream.send_all(f"HTTP/1.1 {status}\r\n{more}Content-Length: 5\r\n\r\nhello".encode("latin-1"))
                if path == "/close":
                    return

    @property
    def forbidden(self):
        """The connects to anything but the public addresses."""
        return [each for each in self.connects if each[0] not in (PUBLIC, PUBLIC6, OTHER)]


@pytest.fixture
async def network(monkeypatch, nursery):
    """A network of one's own."""
    made = Network()
    listener = await nursery.start(partial(trio.serve_tcp, made.serve, 0, host="127.0.0.1"))
    made.port = listener[0].socket.getsockname()[1]
    real = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", lambda sock, address: made.connect(real, sock, address))
    trio.socket.set_custom_hostname_resolver(made)
    yield made
    nursery.cancel_scope.cancel()
