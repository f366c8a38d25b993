"""growd that stalls when it is told to: `python stalling.py PROGRAM ARGUMENT...`, with growd as the program.

At SIGUSR1 it blocks the event loop for good; other threads run.
"""

import runpy
import signal
import sys
import time

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3_600))
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
