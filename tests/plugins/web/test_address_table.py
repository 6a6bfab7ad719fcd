"""URLs in every notation we know of: none that leads to a forbidden address is allowed, none to a
public one refused.

The server for names here is the worst there is: it takes old notations of numbers as the C library
does, wildcard names of the kind 10.0.0.1.nip.io as their owners do, and calls every other name
public. So a row is refused by the check, or not at all.
"""

import re
import socket
from collections import Counter
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hilum_web import METADATA, Reach, check_url
from hilum_web.addresses import find_embedded_ipv4

PUBLIC = "93.184.215.14"
NAMES = {
    "metadata.google.internal": ["169.254.169.254"],
    "metadata.tencentyun.com": ["169.254.0.23"],
    "instance-data": ["169.254.169.254"],
    "kubernetes.default.svc": ["10.96.0.1"],
    "host.docker.internal": ["192.168.65.254"],
    "router": ["192.168.1.1"],
    "ip6-localhost": ["::1"],
    "localhost.localdomain": ["127.0.0.1"],
    "localtest.me": ["127.0.0.1", "::1"],
    "mixed.example": [PUBLIC, "10.0.0.1"],
    "mixed-back.example": ["10.0.0.1", PUBLIC],
    "mixed6.example": [PUBLIC, "fd00::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "zone.example": ["fe80::1%eth0"],
    "zero.example": ["0.0.0.0"],
    "nothing.example": [],
    "junk.example": ["not an address"],
    "octal.example": ["0177.0.0.1"],
    "decimal.example": ["2130706433"],
    "azure.example": ["168.63.129.16"],
    "printer.local": ["169.254.12.3"],
    "xn--n3h.example": ["10.1.2.3"],
}


def answer(host: str) -> list[str]:
    """Answer as the worst server for names would."""
    if host in NAMES:
        return NAMES[host]
    try:
        return [socket.inet_ntoa(socket.inet_aton(host))]
    except OSError:
        pass
    for wildcard in (".nip.io", ".sslip.io", ".xip.example"):
        if host.endswith(wildcard):
            inner = host.removesuffix(wildcard)
            for text in (
                ".".join(inner.split(".")[-4:]),
                ".".join(inner.split("-")[-4:]),
                inner.replace("-", ":"),
            ):
                try:
                    return [str(ip_address(text))]
                except ValueError:
                    continue
    return [PUBLIC]


def digits(text: str, zero: int) -> str:
    """Write the digits with others of Unicode."""
    return "".join(chr(zero + int(each)) if each.isdecimal() else each for each in text)


def odd(address: str) -> list[str]:
    """Give the hosts that some reader takes for an IPv4 address, without its plain notation."""
    a, b, c, d = IPv4Address(address).packed
    n = int(IPv4Address(address))
    return [
        f"{n}", f"0{n:o}", f"00{n:o}", f"0x{n:x}", f"0X{n:X}", f"0x{n:08x}", f"0x00000000{n:x}", f"{n + 2**32}",
        f"0x1{n:08x}",
        f"{a}.{n & 0xFFFFFF}", f"{a}.{b}.{n & 0xFFFF}", f"0x{a:x}.{n & 0xFFFFFF}", f"0{a:o}.{n & 0xFFFFFF}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}", f"0x{a:02X}.0x{b:02X}.0x{c:02X}.0x{d:02X}", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"000{a:o}.000{b:o}.000{c:o}.000{d:o}", f"{a}.{b}.{c}.0{d:o}", f"{a}.{b}.{c}.0x{d:x}", f"0x{a:x}.{b}.0{c:o}.{d}",
        f"{a:03}.{b:03}.{c:03}.{d:03}", f"0{a}.{b}.{c}.{d}", f"{a}.{b}.{c}.00{d}",
        f"{a + 256}.{b + 256}.{c + 256}.{d + 256}",
        f"{address}.", f"{address}..", f".{address}", f"{a}..{b}.{c}.{d}", f"{address}.0", f"0x{n:x}.", f"{n}.",
        "".join(f"%{ord(each):02x}" for each in address), address.replace(".", "%2E"), f"%{ord(address[0]):X}{address[1:]}",
        digits(address, 0xFF10), digits(address, 0x1D7CE), digits(address, 0x1D7F6), digits(f"{n}", 0xFF10),
        digits(f"0x{n:x}", 0xFF10) if f"{n:x}".isdecimal() else f"0ｘ{n:x}",
        address.replace(".", "。"), address.replace(".", "．"), address.replace(".", "｡"), address.replace(".", "。", 1),
        f"{address[0]}\xad{address[1:]}", f"{address[0]}\u200b{address[1:]}", f"{address[0]}\u200d{address[1:]}",
        f"{address[0]}\u2060{address[1:]}", f"\ufeff{address}", f"{address}\u180e", f"{address}\ufe0f",
        f"{address} ", f" {address}", f"{address}\t", f"{address}\n", f"{address}\r", f"{address}\x00", f"{address}%00",
        f"{address}\x0b", f"{address}\xa0", f"{address}\u3000", f"{address}%20", f"{address}%0d%0a",
        f"{address[:2]}\t{address[2:]}",
        f"[{address}]", f"[{address}%1]", f"+{address}", f"-{address}", f"{address};", f"{address},",
        f"{address}'", f'"{address}"',
        f"u:p@{address}", f"@{address}", f"public.example@{address}", f"public.example:80@{address}", f"a@b@{address}",
        f"public.example\\@{address}", f"{address}\\@public.example", f"{address}\\.public.example", f"\\{address}",
        f"public.example%40{address}", f"public.example%00@{address}", f"public.example\t@{address}", f"{address}:80:80",
        f"{address}:0", f"{address}:65536", f"{address}:99999999", f"{address}:-80", f"{address}:+80", f"{address}:8 0",
        f"{address}:%38%30", f"{address}:８０", f"{address}:80@public.example", f"{address}:http",
    ]  # fmt: skip


PLACES = [
    "127.0.0.1",
    "10.0.0.1",
    "172.31.255.254",
    "192.168.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "0.0.0.0",
]
WRITTEN = [f"{host}:8080" if i % 5 == 0 else host for i, host in enumerate(PLACES)]


def wrapped(address: str) -> list[str]:
    """Give the IPv6 addresses, as hosts, that a standard makes of an IPv4 one."""
    n = int(IPv4Address(address))
    high, low = f"{n >> 16:x}", f"{n & 0xFFFF:x}"
    inside = [
        f"::ffff:{address}", f"::ffff:{high}:{low}", f"::FFFF:{high}:{low}", f"0:0:0:0:0:ffff:{high}:{low}",
        f"0:0:0:0:0:ffff:{address}",
        f"0000:0000:0000:0000:0000:ffff:{n >> 16:04x}:{n & 0xFFFF:04X}", f"0::ffff:{address}", f"::0:ffff:{address}",
        f"0::0:FFff:{high}:{low}",
        f"::{address}", f"::{high}:{low}", f"0:0:0:0:0:0:{address}", f"::ffff:0:{address}", f"::ffff:0:{high}:{low}",
        f"64:ff9b::{address}", f"64:ff9b::{high}:{low}", f"0064:FF9B:0:0:0:0:{high}:{low}", f"64:ff9b:1::{address}",
        f"64:ff9b:1:{high}:{n >> 8 & 0xFF:x}:{(n & 0xFF) << 8:x}::", f"64:ff9b:1:fffe::{address}",
        f"2002:{high}:{low}::", f"2002:{high}:{low}::1", f"2002:{high.upper()}:{low.upper()}:0:0:0:0:1",
        f"2002:5db8:d70e::5efe:{address}", f"2606:4700::5efe:{address}", f"2606:4700:0:0:200:5efe:{high}:{low}",
        f"fe80::5efe:{address}",
        f"2001:0:{high}:{low}:8000:63bf:a247:28f1",
        f"2001:0:4136:e378:8000:63bf:{(n >> 16) ^ 0xFFFF:x}:{(n & 0xFFFF) ^ 0xFFFF:x}",
    ]  # fmt: skip
    return [f"[{each}]" for each in inside]


def spellings(address: str) -> list[str]:
    """Write an IPv6 address with its zeros left out at every place where they may be."""
    groups = IPv6Address(address).exploded.split(":")
    short = [group.lstrip("0") or "0" for group in groups]
    found = {address, ":".join(groups), ":".join(short), ":".join(short).upper()}
    for start in range(8):
        for end in range(start + 1, 9):
            if set(short[start:end]) == {"0"}:
                found.add(":".join(short[:start]) + "::" + ":".join(short[end:]))
    return sorted(found)


SIX = [
    "::", "::1", "::2", "::ffff", "::1:0:0", "1::", "100::", "100::1", "100:0:0:1::1", "100:0:0:2::", "200::1",
    "400::1", "1fff:ffff::1",
    "64:ff9a::1", "64:ff9c::1", "64:ff9b:2::1", "64:ff9b:0:1::808:808", "2001::1", "2001:1::", "2001:1::4", "2001:2::1",
    "2001:4::1",
    "2001:4:111::1", "2001:4:113::1", "2001:5::1", "2001:10::1", "2001:1f::1", "2001:40::1", "2001:1ff:ffff::1",
    "2001:db8::",
    "2001:db8::1", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff::1", "3fff:fff:ffff::1", "4000::",
    "5f00::1", "5fff::1", "8000::1",
    "c000::1", "e000::1", "f000::1", "fbff::1", "fc00::", "fc00::1", "fd00::1", "fd12:3456:789a::1", "fdff:ffff::1",
    "fe00::1", "fe7f::1",
    "fe80::", "fe80::1", "febf:ffff::1", "fec0::1", "feff::1", "ff00::", "ff02::1", "ff0e::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1",
    "fe80::a9fe:a9fe",
]  # fmt: skip

BROKEN = [
    "", "http", "http:", "http:/", "http://", "http:///", "http:////", "http://:80/", "http://:", "http://?",
    "http://#", "http://@", "//",
    "//127.0.0.1/", "/", "127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80", "public.example",
    "www.public.example/x", "://x",
    "http:/127.0.0.1/", "http:127.0.0.1/", "http:\\\\127.0.0.1\\", "http:\\127.0.0.1", "http:/\\127.0.0.1/",
    "http:///127.0.0.1/",
    "http:////127.0.0.1/", "https:/public.example/", "https:public.example", "http:///public.example/",
    "http//public.example/",
    "http;//public.example/", "http ://public.example/", " http://public.example/", "http://public.example/ ",
    "\thttp://public.example/",
    "ht\ntp://public.example/", "http:\n//public.example/", "http://public.example\n/",
    "http://public.example/\r\nHost: 127.0.0.1",
    "http://public.example/a b", "http://public.example\\", "http://public.example\\.evil.example/",
    "http://public.example/\\..\\x",
    "http://public.example/\x00", "http://public.example/\x1b[31m", "http://public.example/\x7f",
    "http://public.example/\x85",
    "http://public.example/\u2028", "\ufeffhttp://public.example/", "http\u200b://public.example/",
    "ｈttp://public.example/",
    "http：//public.example/", "http:／／public.example/", "http://public．example：80/", "http://public.example／.evil.example/",
    "http://public.example＠127.0.0.1/", "http://public.example＃@127.0.0.1/", "http://public.example？@127.0.0.1/",
    "http://℀.example/", "http://a℆b.example/", "http://public.example⁄/x", "http://㎡℡.example:80:80/",
    "ftp://public.example/", "file:///etc/passwd", "file://public.example/etc/passwd", "FILE:///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "dict://127.0.0.1:11211/", "ldap://127.0.0.1/", "ws://public.example/", "wss://public.example/", "data:text/html,x",
    "javascript:alert(1)",
    "about:blank", "blob:http://public.example/x", "view-source:http://public.example/",
    "jar:http://public.example/!/x", "unix:///run/docker.sock",
    "http+unix://%2Frun%2Fdocker.sock/", "httpunix://x/", "netdoc:///etc/passwd", "url:http://public.example/",
    "httpx://public.example/",
    "http2://public.example/", "xhttp://public.example/", "https+http://public.example/", "chrome://settings",
    "mailto:a@public.example",
    "feed:http://127.0.0.1/", "tftp://127.0.0.1/", "sftp://127.0.0.1/", "ssh://127.0.0.1/", "smb://127.0.0.1/",
    "php://filter",
    "http://user@public.example/", "http://user:password@public.example/", "http://:@public.example/",
    "http://@public.example/",
    "http://public.example:80@127.0.0.1:80/", "http://127.0.0.1:80@public.example/", "http://a:b@c:d@public.example/",
    "http://127.0.0.1#@public.example/", "http://127.0.0.1?@public.example/",
    "http://127.0.0.1/@public.example/", "http://127.0.0.1&@public.example/", "http://127.0.0.1;@public.example/",
    "http://127.0.0.1,public.example/", "http://127.0.0.1 public.example/", "http://public.example,127.0.0.1/",
    "http://public.example;127.0.0.1/",
    "http://[/", "http://]/", "http://[]/", "http://[::1/", "http://::1]/", "http://::1/", "http://[::1]]/",
    "http://[[::1]]/", "http://[::1]x/",
    "http://[::1].public.example/", "http://public.example[::1]/", "http://[::1]:80:80/",
    "http://[::1]@public.example/", "http://x[::1]/",
    "http://[::1%25lo]/", "http://[::1%lo]/", "http://[fe80::1%eth0]/", "http://[fe80::1%25eth0]/",
    "http://[2606:4700::1111%251]/",
    "http://[2606:4700::1111%]/", "http://[v1.fe80::1]/", "http://[vF.127.0.0.1]/", "http://[::1 ]/", "http://[ ::1]/",
    "http://[::%31]/",
    "http://[::１]/", "http://[::ffff:127.1]/", "http://[::ffff:0177.0.0.1]/", "http://[::ffff:0x7f.0.0.1]/",
    "http://[::ffff:2130706433]/",
    "http://[::127.0.0.1.]/", "http://[1:2:3:4:5:6:7]/", "http://[1:2:3:4:5:6:7:8:9]/", "http://[1::2::3]/",
    "http://[:::]/", "http://[::00001]/",
    "http://[::g]/", "http://[public.example]/", "http://[localhost]/", "http://[0x7f000001]/",
    "http://[2606:4700::1111]80/",
    "http://public.example:0/", "http://public.example:65536/", "http://public.example:-1/", "http://public.example:8_0/",
    "http://public.example:０/", "http://public.example:1e3/", "http://public.example: 80/",
    "http://public.example:000000080/",
    "http://-public.example/", "http://public-.example/", "http://public..example/", "http://.public.example/",
    "http://./", "http://../",
    "http://public.example../", "http://" + "a" * 64 + ".example/", "http://" + "a." * 127 + "example/",
    "http://public.example/" + "a" * 9_000,
    "http://pub%6cic.example/", "http://%6c%6f%63%61%6c%68%6f%73%74/", "http://public%2eexample/",
    "http://public.example%2f@127.0.0.1/",
    "http://public.example%23@127.0.0.1/", "http://public.example%5c@127.0.0.1/", "http://pub!ic.example/",
    "http://pub*ic.example/",
    "http://{host}/", "http://$HOST/", "http://`id`/", "http://$(id)/", "http://<host>/", "http://public|example/",
    "http://public^example/",
    "http://a_\u00e9.example/", "http://\U0001f600.\ud800.example/", "http://\udcff/", "http://xn--\u00fc.example/",
    "http://\u0300x.example/",
    "http://\u05d0a1.example/", "http://1.2.3.4.5/", "http://1.2.3/", "http://256.256.256.256/", "http://1.1.1.256/",
    "http://example.0x/",
    "http://public.1/", "http://public.example.127/", "http://public.0x7f/", "http://0/", "http://00/", "http://0x0/",
    "http://0./", "http://1/",
    "http://00000000000000000000000000000000177.1/", "http://99999999999999999999/", "http://0xffffffffffffffff/",
    "http://127.0.0.0x/",
]  # fmt: skip

LED = [
    *NAMES, "LOCALHOST", "LocalHost", "localhost.", "app.localhost", "a.b.LOCALHOST.", "ｌｏｃａｌｈｏｓｔ", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "𝐥𝐨𝐜𝐚𝐥𝐡𝐨𝐬𝐭",
    "local\u00adhost", "local\u200bhost", "loca\u2060lhost", "localhoſt", "lo\ufe0fcalhost", "localhost。",
    "x｡localhost", "METADATA.google.INTERNAL",
    "metadata.google.internal.", "metadata。google。internal", "metadata.ｇoogle.internal", "127.0.0.1.nip.io",
    "10.0.0.1.nip.io", "app.10.0.0.1.nip.io",
    "app-10-0-0-1.nip.io", "192-168-1-1.sslip.io", "www.169.254.169.254.sslip.io", "169-254-169-254.nip.io",
    "0.0.0.0.nip.io",
    "a.b.c.172.16.0.1.nip.io", "fd00--1.sslip.io", "fe80--1.sslip.io", "64-ff9b--7f00-1.sslip.io",
    "168.63.129.16.nip.io", "100.100.100.200.nip.io",
    "☃.example", "127.0.0.1.xip.example.", "ROUTER",
]  # fmt: skip
REFUSED = sorted(
    {f"http://{host}/" for place in PLACES for host in [place, *odd(place), *wrapped(place)]}
    | {f"https://{host}:8443/x?y=1#z" for host in PLACES}
    | {f"HTTP://{host}" for host in WRITTEN}
    | {
        f"http://[{text}]/"
        for six in SIX
        for text in (spellings(six) if six in ("::1", "fd00::1", "fe80::a9fe:a9fe") else [six])
    }
    | {f"https://{host}/" for host in LED}
    | set(BROKEN)
)

KNOWN = [
    "1.1.1.1", "8.8.8.8", "9.9.9.9", "93.184.215.14", "140.82.112.3", "151.101.1.69", "142.250.74.110", "168.63.129.15",
    "168.63.129.17",
    "192.0.0.9", "192.0.0.10", "192.31.196.1", "192.52.193.1", "192.175.48.6", "193.0.6.139", "198.41.0.4", "199.9.14.201",
    "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0",
    "192.88.98.255", "192.88.100.0",
    "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
]  # fmt: skip
KNOWN6 = [
    "2001:4860:4860::8888", "2606:4700:4700::1111", "2620:fe::fe", "2620:4f:8000::1", "2a00:1450:4001:82f::200e",
    "2400:cb00:2048:1::c629:d7a2",
    "2000::", "2000::1", "2001:200::", "2001:1::1", "2001:1::2", "2001:1::3", "2001:3::1", "2001:3:ffff::1",
    "2001:4:112::1", "2001:20::1",
    "2001:2f:ffff::1", "2001:30::1", "2001:3f:ffff::1", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::",
    "2002:808:808::1",
    "2002:5db8:d70e::5db8:d70e", "2003::1", "3ffe::1", "3ffe:ffff:ffff::1", "3fff:1000::",
    "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "::ffff:8.8.8.8", "::ffff:808:808", "64:ff9b::8.8.8.8", "64:ff9b::808:808", "2606:4700::5efe:808:808", "2001:200::1",
]  # fmt: skip
ALLOWED = [
    *sorted(
    {f"http://{host}/" for host in KNOWN}
    | {f"https://{host}:8443/a?b#c" for host in KNOWN}
    | {f"https://[{text}]/" for six in KNOWN6 for text in spellings(six)}
    | {f"http://[{six}]:8080" for six in KNOWN6}),

    "http://public.example", "http://public.example/", "HTTP://PUBLIC.EXAMPLE/", "hTtPs://Public.Example/Path",
    "https://public.example:443/",
    "https://public.example:/", "http://public.example:65535/", "http://public.example:2/",
    "http://public.example:0080/", "http://public.example./",
    "http://public.example?q=1", "http://public.example#part", "http://public.example:80#@127.0.0.1:x/@",
    "http://public.example/?next=http://127.0.0.1/", "http://public.example/@127.0.0.1/",
    "http://public.example/http://10.0.0.1/", "http://public.example/#@127.0.0.1", "http://public.example/a//b",
    "http://public.example/;x=1",
    "http://public.example/%00", "http://public.example/%2e%2e/", "http://public.example/a/../b",
    "http://public.example/[x]", "http://public.example/{x}",
    "http://public.example/\u00fc", "http://public.example/?\u65e5\u672c", "http://public.example/'\"<>",
    "http://public.example/" + "a" * 7_900,
    "http://b\u00fccher.example/", "http://B\u00dcCHER.example/", "http://xn--bcher-kva.example/",
    "http://fa\u00df.example/", "http://日本語.example/",
    "http://日本語。example/", "http://例え.テスト/", "http://президент.рф/", "http://xn--d1abbgf6aiiy.xn--p1ai/",
    "http://한국.kr/", "http://القاهرة.مصر/",
    "http://_dmarc.public.example/", "http://a_b.public.example/", "http://under_.public.example/",
    "http://r3---sn-4g5e6n7k.public.example/",
    "http://a--b.public.example/", "http://1.public.example/", "http://127.0.0.1.public.example/",
    "http://0x7f.public.example/", "http://3com.example/",
    "http://1e100.example/", "http://123.example/", "http://10.example/", "http://" + "a" * 63 + ".example/",
    "http://" + "a." * 122 + "example/",
    "http://localhost.example/", "http://notlocalhost/", "http://localhosts/", "http://local-host/",
    "http://8.8.8.8.nip.io/", "http://1-1-1-1.sslip.io/",
    "http://single/", "http://x/", "http://public.example:8080/x:y@z", "http://public.example/:0",
    "http://public.0x7g/", "http://public.x1/",
]  # fmt: skip


def test_table_is_as_large_as_it_should_be():
    assert len(REFUSED) >= 500
    assert len(ALLOWED) >= 150
    assert not set(REFUSED) & set(ALLOWED)


def test_no_forbidden_url_is_allowed():
    verdicts = {url: check_url(url, answer) for url in REFUSED}
    assert [url for url, verdict in verdicts.items() if verdict or verdict.addresses] == []
    assert [
        v.reason
        for v in verdicts.values()
        if not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]+\.", v.reason)
    ] == []


def test_no_public_url_is_refused():
    verdicts = {url: check_url(url, answer) for url in ALLOWED}
    assert [(url, verdict.reason) for url, verdict in verdicts.items() if not verdict] == []
    assert [
        url for url, v in verdicts.items() if v.reason or not v.addresses or not v.url.isascii()
    ] == []


def test_listing_a_host_opens_everything_but_metadata():
    """What a user lists is theirs to reach.

    No list opens a metadata service, in whatever notation it is written.
    """
    counts = Counter()
    for url in REFUSED:
        host = check_url(url, answer).host
        if not host:
            continue
        verdict = check_url(url, answer, Reach(hosts=frozenset({host})))
        try:
            found = [
                ip_address(each.partition("%")[0])
                for each in ([host] if ":" in host else answer(host))
            ]
        except ValueError:
            found = []
        inner = [
            each
            for address in found
            if address.version == 6
            for each in find_embedded_ipv4(address)
        ]
        if METADATA.intersection(found + inner):
            assert "the metadata service of a cloud" in verdict.reason, url
        else:
            assert bool(verdict) is bool(found), (url, verdict.reason)
        counts[bool(verdict)] += 1
    assert min(counts.values()) > 40


@pytest.mark.parametrize("port", [22, 25, 110, 143, 587, 2049, 6000, 6667])
def test_ports_of_other_protocols_are_refused_whoever_lists_the_host(port):
    """As browsers do: a page must not speak to a mail server."""
    from hilum_web import Reach, check_url

    for url, reach in (
        (f"http://93.184.216.34:{port}/", Reach()),
        (f"http://10.0.0.1:{port}/", Reach(hosts=frozenset({"10.0.0.1"}))),
    ):
        verdict = check_url(url, reach=reach)
        assert not verdict
        assert "which browsers do not contact" in verdict.reason
    assert check_url("http://93.184.216.34:8080/")
