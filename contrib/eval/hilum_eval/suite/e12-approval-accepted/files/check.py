"""Checks the settings: python3 check.py"""

import sys
import tomllib
from pathlib import Path

settings = tomllib.loads(Path(__file__).with_name("config").joinpath("server.toml").read_text("utf-8"))
server = settings["server"]
if server["tls"] and server["port"] == 8080:
    sys.exit("error: TLS needs another port than 8080")
print(f"ok: {server['host']}:{server['port']}, TLS {'on' if server['tls'] else 'off'}")
