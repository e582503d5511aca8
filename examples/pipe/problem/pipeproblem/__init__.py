"""The Pipe Problem of paper 000 (section 2) as a workflow: see the README beside this package."""
