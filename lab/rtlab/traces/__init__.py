"""Replaying a recorded trace on any allocator, and comparing them for one program."""
