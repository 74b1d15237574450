"""Run the command line: `python -m tracecorr`."""

import sys

from tracecorr.cli import main

if __name__ == "__main__":
    sys.exit(main())
