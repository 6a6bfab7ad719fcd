"""The table of attacks is a module beside the tests, for others to add rows to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
