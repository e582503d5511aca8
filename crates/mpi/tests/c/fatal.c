#include "check.h"

/* An error that nobody handles ends all ranks: what MPI_COMM_SELF does with errors is no matter of MPI_COMM_WORLD's. */
int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == size - 1) MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
