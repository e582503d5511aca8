#!/bin/sh
# Lists a directory, and makes another one from it.
(cd "$1" && find . -type f | sort)
mkdir -p "results/deep"
cp "$1"/* results/ 2>/dev/null
echo made >results/deep/made.txt
