#!/bin/sh
# echo.sh MESSAGE PAUSE [picture=FILE] PICTURE [numbers=FILE] NUMBERS TO: files go to the name that follows them, the text to the last.
set -e
text=$1
sleep "$2"
shift 2
from=
for word do
    case $word in
        picture=* | numbers=*) from=${word#*=} ;;
        *) [ -z "$from" ] || cp "$from" "$word"; from= to=$word ;;
    esac
done
printf '%s' "$text" > "$to"
