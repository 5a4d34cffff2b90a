"""The command line: parses, reports problems, and calls what does the work. Each group of commands has a file."""
