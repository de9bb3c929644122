"""What can go wrong with the control plane, told in a sentence with a next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class ControlPlaneError(Exception):
    """The control plane could not be built, started or kept running.

    The text is for the user: what happened, the last lines of the log if there is one, and what to do next.
    """


@contextmanager
def disk_errors(doing: str, setting: str) -> Iterator[None]:
    """Turn a full or unwritable disk into a `ControlPlaneError`; `setting` is the variable for another."""
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            why = f"the disk is full{place}. Free some space, or set {setting} to a folder with more"
        elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            why = f"this user may not write there{place}. Set {setting} to a folder that it may write to"
        else:
            raise
        raise ControlPlaneError(f"Cannot {doing}: {why}, then run the same command again.") from error
