"""Which tests of this folder run when."""

from __future__ import annotations

import os

# A broker, a Spark stream and an audit beside each other: in the long profile, or when the file is named.
collect_ignore = [] if os.environ.get("COUNTERPOISE_PROFILE") == "long" else ["test_audit_follow_live.py"]
