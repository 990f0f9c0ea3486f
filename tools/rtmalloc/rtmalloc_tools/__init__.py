"""The command `rtmalloc`: what a user of the allocator needs beside the library."""

__version__ = "0.1.0"
