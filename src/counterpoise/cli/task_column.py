"""A column of the audit's progress: the tasks of Spark's running stages, their rate, and the time left."""

from __future__ import annotations

import time

from rich.progress import ProgressColumn, Task
from rich.text import Text

__all__ = ["TaskColumn"]


class TaskColumn(ProgressColumn):
    """Counts are asked from Spark twice a second; without a running stage (or on a remote server) nothing is shown."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._stages: tuple[int, ...] = ()
        self._first, self._since = 0, 0.0

    def render(self, task: Task) -> Text:
        """The text for now; rate and time left count the tasks that ended since these stages were first seen."""
        from counterpoise.pipeline.session import running_tasks

        stages, done, total = running_tasks()
        if stages != self._stages:
            self._stages, self._first, self._since = stages, done, time.monotonic()
        ended, seconds = done - self._first, time.monotonic() - self._since
        rest = f", {ended / seconds:.1f} a second, {(total - done) * seconds / ended:.0f} s left" if ended and seconds else ""
        return Text(f"{done} of {total} tasks{rest}" if total else "", style="progress.remaining")
