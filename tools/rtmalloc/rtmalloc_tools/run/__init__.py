"""`rtmalloc run` and `rtmalloc record`: programs on the allocator."""
