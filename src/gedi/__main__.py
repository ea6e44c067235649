"""`python -m gedi` is `gedi`."""

import sys

from gedi.cli import main

sys.exit(main())
