#!/bin/sh
# The paper's one-liner (paper 000, Figure 4). As `oids_server` it takes the same words.
cd "$(dirname "$0")" || exit
exec fishplate serve \
    -n arithmetic-test \
    -U urn:test \
    -N 'Arithmetic Server' \
    -- ./add.sh '[in val x:int]' '[in val y:int]' '>' '[out file result:int]'
