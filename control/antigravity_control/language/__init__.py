"""What rules say: actions, scopes, the notation, modes, and how hosts and paths are spelt."""
