"""`rtmalloc profile`: reading, showing, merging and comparing profiles."""
