"""Runs simulations: ``python tests/simulation/run.py --seed 12345``; see README.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulator.command import main

if __name__ == "__main__":
    raise SystemExit(main())
