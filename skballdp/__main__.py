"""``python -m skballdp``."""

import sys

from skballdp.cli import main

sys.exit(main())
