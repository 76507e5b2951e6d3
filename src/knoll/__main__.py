"""``python -m knoll`` is the command line."""

import sys

from knoll.cli import main

sys.exit(main())
