#include "check.h"

/* One of several programs of a launch: which, its argument says. */
int main(int argc, char **argv) {
    int *number, flag;
    begin(&argc, &argv);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    CHECK(flag && argc == 2 && *number == atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
