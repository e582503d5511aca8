/* Everybody's rank to everybody, and to the next one in a ring. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, got;
    MPI_Status status;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 7, &got, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, &status);
    printf("rank %d of %d: sum %d, got %d from %d\n", rank, size, sum, got, status.MPI_SOURCE);
    MPI_Finalize();
    return 0;
}
