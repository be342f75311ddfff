"""`python -m tapgnn.cli`, where the script `tapgnn` is not on the path."""

import sys

from tapgnn.cli import main

sys.exit(main())
