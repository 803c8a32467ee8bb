"""`python -m rltok` is `rltok`."""

import sys

from rltok.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
