"""The command line: parse, call, print. A file has one command, or some that are used together."""
