"""rtlab: measures rtmalloc beside other allocators. Start reading at cli.py."""
