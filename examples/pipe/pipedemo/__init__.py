"""The demo's parts, in reading order: case, chain, runner, server, bench, stress, render, picture,
report."""
