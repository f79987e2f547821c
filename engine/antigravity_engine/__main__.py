"""`python -m antigravity_engine`."""

import sys

from antigravity_engine.cli import main

sys.exit(main())
