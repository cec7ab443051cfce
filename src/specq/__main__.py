"""python -m specq is the specq command."""

import sys

from specq.cli import main

sys.exit(main())
