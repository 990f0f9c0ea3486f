"""`python -m rtmalloc_tools` is the command `rtmalloc`."""

from rtmalloc_tools.cli import main

main()
