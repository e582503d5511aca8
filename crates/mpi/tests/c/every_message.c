#include "check.h"

/* Messages go round a ring. */
static int next, previous;
static int sent, got;

static int value(int from, int number) { return 1000 * number + from; }

/* What came from the previous rank, and its status. */
static int came(const MPI_Status *status, int tag, int number) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    return got == value(previous, number) && status->MPI_SOURCE == previous && status->MPI_TAG == tag && count == 1;
}

#define BODY "every_message.h"
#include "forms.h"

/* More than any memory has. */
static void beyond(void) {
    MPI_Count most = (MPI_Count)1 << 62;
    MPI_Status status;
    CHECK(class_of(MPI_Send_c(&sent, most, MPI_INT, next, 0, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Recv_c(&got, most, MPI_DOUBLE, previous, 0, MPI_COMM_WORLD, &status)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Allgather_c(&sent, 1, MPI_INT, &got, most, MPI_DOUBLE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    MPI_Count one = 1;
    MPI_Aint at = 0;
    int code = MPI_Alltoallv_c(&sent, &most, &at, MPI_INT, &got, &one, &at, MPI_INT, MPI_COMM_SELF);
    CHECK(class_of(code) == MPI_ERR_COUNT);
}

/* Probes that don't wait, and messages that nobody else can receive. */
static void probes(void) {
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;
    int flag;
    MPI_Improbe(previous, 9, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    sent = value(rank, 9);
    MPI_Isend(&sent, 1, MPI_INT, next, 9, MPI_COMM_WORLD, &request);
    do MPI_Iprobe(previous, 9, MPI_COMM_WORLD, &flag, &status);
    while (!flag);
    CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 9);
    do MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, &message, &status);
    while (!flag);
    CHECK(status.MPI_SOURCE == previous && message != MPI_MESSAGE_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(came(&status, 9, 9) && message == MPI_MESSAGE_NULL);
    CHECK(class_of(MPI_Mrecv(&got, 1, MPI_INT, &message, &status)) == MPI_ERR_REQUEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* From nobody. */
    MPI_Iprobe(MPI_PROC_NULL, 9, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Improbe(MPI_PROC_NULL, 9, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(flag && message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(class_of(MPI_Iprobe(size, 9, MPI_COMM_WORLD, &flag, &status)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Improbe(0, -9, MPI_COMM_WORLD, &flag, &message, &status)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Probe(MPI_ROOT, 9, MPI_COMM_WORLD, &status)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Mprobe(0, 9, MPI_COMM_NULL, &message, &status)) == MPI_ERR_COMM);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (rank + 1) % size, previous = (rank + size - 1) % size;
    modes();
    modes_c();
    exchanges();
    exchanges_c();
    parts();
    parts_c();
    buffers();
    buffers_c();
    wrong();
    wrong_c();
    beyond();
    probes();
    MPI_Finalize();
    return 0;
}
