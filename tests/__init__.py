"""Tests of sessioncompress, and the synthetic sessions they run on."""

import os

# Nothing can lie there: no test goes by the configuration of whoever runs it.
os.environ["XDG_CONFIG_HOME"] = os.devnull
