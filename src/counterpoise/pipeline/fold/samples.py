"""The samples of log ends of a capture, laid out log by log."""

from __future__ import annotations

from collections.abc import Callable

from counterpoise.pipeline.fold.ends_file import EndsFile, with_samples
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.scan.read import Window
from counterpoise.pipeline.source.capture import CaptureFiles

__all__ = ["samples_of"]


def samples_of(
    files: CaptureFiles,
    new_file: Callable[[], str],
    window: Window = (None, None),
    before: EndsFile | None = None,
    after: int | None = None,
) -> EndsFile:
    """All samples of a capture, in a file of this machine.

    Parameters
    ----------
    files : CaptureFiles
    new_file : callable
        Gives the path of a new file.
    window : pair
        Samples of other times are left out.
    before : EndsFile, optional
        What an earlier update left: it stays where it is, and grows.
    after : int, optional
        Samples up to then are in `before`, in microseconds.
    """
    if not files.ends:
        return EndsFile.empty()
    if before is None or not before.logs:
        before, after = EndsFile.empty(), None
    since, until = window
    first = [at for at in (after, None if since is None else since - 1) if at is not None]
    return with_samples(before, NewSamples(files.ends, max(first, default=None), until), new_file)
