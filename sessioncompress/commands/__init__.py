"""One command, one file: parse, call, print, exit code; what takes time is imported when it is needed."""
