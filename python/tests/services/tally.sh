#!/bin/sh
# Notes that it was started, works for a while, gives the next number: tally.sh FILE TAG X SECONDS
echo "$2" >> "$1"
[ "$4" = 0 ] || sleep "$4"
[ "$3" -ge 0 ] || { echo "$3 is below 0" >&2; exit 3; }
echo $((($3 * 1103515245 + 12345) % 65536))
