"""Rules compiled for looking up, so that a decision does not depend on how many there are."""
