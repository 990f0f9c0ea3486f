"""`rtmalloc check`: whether a machine and a program are fit for real time."""
