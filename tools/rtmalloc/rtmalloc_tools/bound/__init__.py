"""`rtmalloc bound`: the most instructions that each operation can execute, from the machine code."""
