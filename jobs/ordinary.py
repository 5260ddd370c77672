"""Opening files that others may have put there. Imports no Django."""

import os
import stat
from errno import EINVAL
from typing import IO


def open_ordinary(path: str) -> IO[bytes]:
    """Open a file for reading; OSError where it is none.

    A pipe would block whoever opens it for ever, and a device has no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, "it is no ordinary file")
    return os.fdopen(descriptor, "rb")
