#!/bin/sh
# Works for a while, says how far it is, writes a file a step and one at the end.
# usage: countdown.sh STEPS SECONDS
steps=$1
pause=$2
mkdir -p steps
step=1
while [ "$step" -le "$steps" ]; do
    sleep "$pause"
    echo "step $step of $steps"
    echo "$step" > "$(printf 'steps/%04d.txt' "$step")"
    step=$((step + 1))
done
echo "$steps" > summary.txt
