"""Addresses that are public, and this machine's all the same: a server that listens on all of them
answers there.
"""

import shutil
import subprocess
import sys
from ipaddress import ip_address

import pytest
from hilum_web.addresses import is_own_address

PROGRAM = """
import trio
from hilum_web import AddressRefused, Reach, resolve_url, open_client
from hilum_web.addresses import is_own_address
from ipaddress import ip_address

async def main():
    for url, reach, allowed in (
        ("http://93.184.215.14:8080/", Reach(), False),
        ("http://[2606:4700::77]:8080/", Reach(), False),
        ("http://93.184.215.14:8080/", Reach(loopback=True), True),
        ("http://93.184.215.14:8080/", Reach(hosts=frozenset({"93.184.215.14"})), True),
        ("http://93.184.215.15:8080/", Reach(), True),
    ):
        try:
            await resolve_url(url, reach)
        except AddressRefused as error:
            print(url, allowed is False, error)
        else:
            print(url, allowed is True)
    async with open_client() as client:
        try:
            await client.get("http://93.184.215.14:8080/")
        except AddressRefused as error:
            print("client", True, error)

trio.run(main)
"""


def test_addresses_of_this_machine_are_known():
    assert is_own_address(ip_address("127.0.0.1"))
    assert not is_own_address(ip_address("93.184.215.14"))
    assert not is_own_address(ip_address("2606:4700::1111"))


def test_gateway_that_binds_everything_owns_nothing(monkeypatch):
    """Where the system binds what is not its own, the question has no answer, and nothing public is
    refused for it.
    """
    from hilum_web import addresses

    monkeypatch.setattr(addresses, "_can_bind", lambda address, version: True)
    addresses._can_bind_any.cache_clear()
    try:
        assert not is_own_address(ip_address("93.184.215.14"))
    finally:
        addresses._can_bind_any.cache_clear()


def test_public_address_of_this_machine_is_refused():
    if not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs unshare and ip")
    setup = "ip link set lo up; ip addr add 93.184.215.14/32 dev lo; ip -6 addr add 2606:4700::77/128 dev lo"
    command = [
        "unshare",
        "-rn",
        "sh",
        "-c",
        f'{setup} 2>/dev/null; exec "$0" -c "$1"',
        sys.executable,
        PROGRAM,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip(f"no namespace of the network here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    lines = [
        line for line in done.stdout.splitlines() if "2606" not in line or " False" not in line
    ]
    assert len(lines) >= 5
    assert [line for line in lines if " True" not in line] == []
    assert (
        "client True 93.184.215.14 resolves to 93.184.215.14, an address of this machine."
        in done.stdout
    )
