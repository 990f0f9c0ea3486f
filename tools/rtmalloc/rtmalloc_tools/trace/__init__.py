"""`rtmalloc trace`: every allocation of a program written down, and what such a file holds."""
