#include "check.h"

/* A program of sessions only, one after the other: nobody calls MPI_Init. */
int main(void) {
    for (int turn = 0; turn < 2; turn++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int sum, one = 1;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, turn == 0 ? "mpi://WORLD" : "mpi://world", &group);
        MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Comm_size(comm, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size);
        char memory[64 + MPI_BSEND_OVERHEAD];
        MPI_Session_attach_buffer(session, memory, sizeof memory);
        MPI_Comm_rank(comm, &rank);
        MPI_Bsend(&one, 1, MPI_INT, rank, 0, comm);
        MPI_Recv(&sum, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE);
        CHECK(sum == 1);
        void *detached;
        int length;
        MPI_Session_detach_buffer(session, &detached, &length);
        CHECK(detached == memory && length == sizeof memory);
        MPI_Comm_free(&comm);
        MPI_Group_free(&group);
        MPI_Session_finalize(&session);
    }
    return 0;
}
