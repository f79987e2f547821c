"""What one request comes to, by its kind: a command line, a file, an address; and the rule that would allow it."""
