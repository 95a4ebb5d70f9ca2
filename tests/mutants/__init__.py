"""The checkers checked: errors made on purpose, one at a time, each of which the tests must notice."""
