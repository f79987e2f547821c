"""The text of a line by bash's own grammar: quoting, words with their parts, commands. Resolves and judges nothing."""
