"""What words come to: variables, braces and arrays that the line itself sets, and what a command leaves behind."""
