"""A full disk, as this process sees it."""

import resource
import sys
from contextlib import contextmanager


@contextmanager
def full_disk(largest):
    """No file of this process grows beyond `largest` bytes. Modules that are imported are not compiled.

    Python would write truncated bytecode, and later imports of these modules would fail.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiles
