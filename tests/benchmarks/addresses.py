"""What checking an address costs, and what the import does.

Run: ``python tests/benchmarks/addresses.py``.

Times are of the processor, the least of several rounds: other work on the machine does not count.
"""

import subprocess
import sys
import time

BAR = 50e-6
URLS = {
    "IPv4": "http://93.184.215.14/a?b",
    "IPv4, refused": "http://192.168.1.1:8080/",
    "IPv6": "https://[2606:4700:4700::1111]/",
    "IPv6, refused": "http://[64:ff9b::a9fe:a9fe]/",
    "odd notation": "http://0x7f.1/",
    "name": "https://www.example.com/a/b?c=d",
    "name, 2 of its 16 addresses private": "https://many.example/",
    "name in Unicode": "https://bücher.example/",
}
ANSWERS = {"many.example": ["93.184.215.14"] * 14 + ["10.0.0.1"] * 2}
HEAVY = ("httpx", "httpcore", "selectolax", "html_to_markdown")


def main() -> None:
    """Print the cost of one check for each kind of URL as a share of the bar, then what an import
    brings.
    """
    from hilum_web import check_url
    from hilum_web.addresses import is_own_address
    from hilum_web.urls import parse_url

    print(f"{len(URLS)} kinds of URLs, bar {BAR * 1e6:.0f} µs")
    for name, url in URLS.items():
        best = measured(
            lambda url=url: check_url(url, lambda host: ANSWERS.get(host, ["93.184.215.14"]))
        )
        verdict = (
            "allowed"
            if check_url(url, lambda host: ANSWERS.get(host, ["93.184.215.14"]))
            else "refused"
        )
        print(f"{name} ({verdict}): {best * 1e6:.1f} µs, {best / BAR:.2f} of the bar")
    own = parse_url(URLS["IPv4"]).address
    print(
        f"whether an address is this machine's (at each connection): {measured(lambda: is_own_address(own)) * 1e6:.1f} µs"
    )
    program = (
        "import hilum, sys, time, trio; b = time.process_time(); import hilum_web;"
        f"print((time.process_time() - b) * 1e3, [m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    taken, _, brought = done.stdout.strip().partition(" ")
    print(
        f"import of hilum_web beyond hilum and trio: {float(taken):.1f} ms, of {', '.join(HEAVY)} it brings {brought}"
    )


def measured(call, rounds: int = 7, number: int = 300) -> float:
    """Give the least processor time of a call, in seconds."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(number):
            call()
        best = min(best, (time.process_time() - begun) / number)
    return best


if __name__ == "__main__":
    main()
