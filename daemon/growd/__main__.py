"""`python -m growd` is `growd`."""

from growd.cli import main

main()
