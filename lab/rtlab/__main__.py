"""`python -m rtlab`, the same as the command `rtlab`."""

from rtlab.cli import main

main()
