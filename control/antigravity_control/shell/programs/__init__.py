"""What programs make of their words, mostly as tables: which run others, read scripts, or open files and addresses."""
