#!/usr/bin/awk -f
# Smooths a grid: each inner point becomes the mean of its four neighbours, as often as `sweeps` says.
# Rows of numbers in, rows of numbers out; it knows nothing of services.
{
    for (j = 1; j <= NF; j++) u[NR, j] = $j
    columns = NF
}
END {
    for (sweep = 1; sweep <= sweeps; sweep++) {
        for (i = 2; i < NR; i++)
            for (j = 2; j < columns; j++)
                v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) / 4
        for (i = 2; i < NR; i++)
            for (j = 2; j < columns; j++)
                u[i, j] = v[i, j]
    }
    for (i = 1; i <= NR; i++)
        for (j = 1; j <= columns; j++)
            printf "%.17g%s", u[i, j], j < columns ? " " : "\n"
}
