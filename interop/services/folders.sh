#!/bin/sh
cd "$1" && find . -type d -empty | sort && find . -type f | sort | while read -r file; do cksum "$file"; done
