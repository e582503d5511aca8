#!/bin/sh
# The paper's program (paper 000, Figure 4): two numbers in, their sum on standard output.
echo $(($1 + $2))
