"""Which tests of this folder run when."""

from __future__ import annotations

import os

# Clusters of their own, or everything that happens to groups, minutes each: in the long profile, or when the file is named.
_LONG = ["test_live_network.py", "test_live_racks.py", "test_live_survival.py", "test_live_versions.py"]
collect_ignore = [] if os.environ.get("COUNTERPOISE_PROFILE") == "long" else _LONG
