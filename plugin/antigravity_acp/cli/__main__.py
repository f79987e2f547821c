"""`python -m antigravity_acp.cli`."""

from . import main

if __name__ == "__main__":
    main()
