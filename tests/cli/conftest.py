"""Which tests of this folder run when."""

from __future__ import annotations

import os

# A broker, members, Spark streams and audits beside each other: in the long profile, or when the file is named.
_LONG = [
    *("test_audit_follow_live.py", "test_audit_follow_kills.py", "test_audit_kills.py", "test_hourly_live.py"),
    "test_monitoring.py",
]
collect_ignore = [] if os.environ.get("COUNTERPOISE_PROFILE") == "long" else _LONG
