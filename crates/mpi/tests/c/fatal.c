#include "check.h"

/* An error that nobody handles ends all ranks. */
int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (rank == size - 1) MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
