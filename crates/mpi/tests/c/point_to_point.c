#include "check.h"
#include <sys/resource.h>

/* Every mode, blocking, non-blocking and persistent, round a ring. */
static void modes(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, sent, got;
    char attached[4096], *detached;
    MPI_Buffer_attach(attached, sizeof attached);
    for (int mode = 0; mode < 12; mode++) {
        MPI_Request receive, send = MPI_REQUEST_NULL;
        MPI_Status status;
        sent = 100 * mode + rank, got = -1;
        MPI_Irecv(&got, 1, MPI_INT, previous, mode, MPI_COMM_WORLD, &receive);
        MPI_Barrier(MPI_COMM_WORLD); /* for the ready sends */
        switch (mode) {
        case 0: MPI_Send(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        case 1: MPI_Ssend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        case 2: MPI_Bsend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        case 3: MPI_Rsend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        case 4: MPI_Isend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 5: MPI_Issend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 6: MPI_Ibsend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 7: MPI_Irsend(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 8: MPI_Send_c(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        case 9: MPI_Send_init(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 10: MPI_Ssend_init(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD, &send); break;
        case 11: PMPI_Send(&sent, 1, MPI_INT, next, mode, MPI_COMM_WORLD); break;
        }
        if (mode == 9 || mode == 10) MPI_Start(&send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        CHECK((mode == 9 || mode == 10) == (send != MPI_REQUEST_NULL));
        if (send != MPI_REQUEST_NULL) MPI_Request_free(&send);
        MPI_Wait(&receive, &status);
        CHECK(got == 100 * mode + previous && status.MPI_SOURCE == previous && status.MPI_TAG == mode);
        int count;
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == 1 && receive == MPI_REQUEST_NULL);
    }
    int length;
    MPI_Buffer_detach(&detached, &length);
    CHECK(detached == attached && length == sizeof attached);
}

/* Probes, and messages that nobody else can receive. */
static void probes(void) {
    double sent[3] = {rank, 2, 3}, got[3] = {0};
    MPI_Request send;
    MPI_Status status;
    MPI_Message message;
    int flag, count, next = (rank + 1) % size;
    MPI_Isend(sent, 3, MPI_DOUBLE, next, 5, MPI_COMM_WORLD, &send);
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK(count == 3 && status.MPI_TAG == 5);
    MPI_Mprobe(status.MPI_SOURCE, 5, MPI_COMM_WORLD, &message, &status);
    MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Mrecv(got, 3, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    CHECK(message == MPI_MESSAGE_NULL && got[0] == (rank + size - 1) % size && got[2] == 3);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Recv(got, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
}

/* Waiting for any, some and all; cancelling; asking without taking. */
static void completion(void) {
    int values[4] = {1, 2, 3, 4}, got[4] = {0}, which, flag, done, indices[4];
    MPI_Request requests[4], send[4], never;
    MPI_Status status, statuses[4];
    for (int i = 0; i < 4; i++) MPI_Irecv(&got[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Testall(4, requests, &flag, MPI_STATUSES_IGNORE);
    CHECK(!flag);
    MPI_Isend(&values[2], 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &send[2]);
    MPI_Waitany(4, requests, &which, &status);
    CHECK(which == 2 && got[2] == 3 && requests[2] == MPI_REQUEST_NULL);
    for (int i = 0; i < 4; i++)
        if (i != 2) MPI_Isend(&values[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &send[i]);
    MPI_Request_get_status(requests[0], &flag, &status);
    CHECK(flag && status.MPI_TAG == 0 && requests[0] != MPI_REQUEST_NULL);
    for (int left = 3; left > 0; left -= done) {
        MPI_Waitsome(4, requests, &done, indices, statuses);
        CHECK(done > 0);
        for (int i = 0; i < done; i++) CHECK(statuses[i].MPI_TAG == indices[i]);
    }
    MPI_Waitsome(4, requests, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED && got[0] == 1 && got[1] == 2 && got[3] == 4);
    MPI_Waitall(4, send, MPI_STATUSES_IGNORE);
    MPI_Irecv(got, 1, MPI_INT, rank, 99, MPI_COMM_WORLD, &never);
    MPI_Cancel(&never);
    MPI_Wait(&never, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
}

/* Freed sends go on, and what they have kept is let go long before the end. */
static void freed_sends(void) {
    enum { SIDE = 256, ROUNDS = 256 };
    static double matrix[SIDE * SIDE * 2], got[SIDE * SIDE];
    struct rusage before, after;
    MPI_Datatype every_other;
    MPI_Type_vector(SIDE, SIDE, 2 * SIDE, MPI_DOUBLE, &every_other);
    MPI_Type_commit(&every_other);
    matrix[0] = 1;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request send, receive;
        got[0] = 0;
        MPI_Irecv(got, SIDE * SIDE, MPI_DOUBLE, (rank + size - 1) % size, 6, MPI_COMM_WORLD, &receive);
        MPI_Isend(matrix, 1, every_other, (rank + 1) % size, 6, MPI_COMM_WORLD, &send);
        MPI_Request_free(&send);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        CHECK(got[0] == 1);
    }
    getrusage(RUSAGE_SELF, &after);
    /* All of them have 128 MiB; in KiB. */
    CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    MPI_Type_free(&every_other);
}

static int freed;
static int query_nothing(void *extra, MPI_Status *status) { return (void)extra, (void)status, MPI_SUCCESS; }
static int count_free(void *extra) { return (void)extra, freed++, MPI_SUCCESS; }
static int no_cancel(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

/* A generalized request that is freed lives until it is complete, whichever comes first. */
static void freed_generalized(void) {
    for (int complete_first = 0; complete_first < 2; complete_first++) {
        MPI_Request request, held;
        freed = 0;
        MPI_Grequest_start(query_nothing, count_free, no_cancel, NULL, &request);
        held = request;
        if (complete_first) MPI_Grequest_complete(held);
        CHECK(freed == 0);
        MPI_Request_free(&request);
        CHECK(request == MPI_REQUEST_NULL && freed == complete_first);
        if (!complete_first) MPI_Grequest_complete(held);
        CHECK(freed == 1);
    }
}

/* A message of parts. */
static void partitioned(void) {
    int sent[6], got[6] = {0}, flag;
    for (int i = 0; i < 6; i++) sent[i] = 10 * rank + i;
    MPI_Request requests[2];
    MPI_Precv_init(got, 3, 2, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(sent, 3, 2, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        memset(got, 0, sizeof got);
        MPI_Startall(2, requests);
        MPI_Pready(1, requests[1]);
        int rest[2] = {0, 2};
        MPI_Pready_list(2, rest, requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Parrived(requests[0], 2, &flag);
        CHECK(flag && got[5] == 10 * ((rank + size - 1) % size) + 5);
    }
    /* What is wrong is an error, and disturbs nothing. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Pready(0, requests[1])) == MPI_ERR_REQUEST);
    memset(got, 0, sizeof got);
    MPI_Startall(2, requests);
    CHECK(class_of(MPI_Pready(0, requests[0])) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(requests[1], 0, &flag)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(3, requests[1])) == MPI_ERR_ARG);
    MPI_Pready(1, requests[1]);
    for (int i = 0; i < 3; i++) CHECK(class_of(MPI_Pready(1, requests[1])) == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Pready(0, requests[1]);
    MPI_Pready(2, requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(got[0] == 10 * ((rank + size - 1) % size) && got[5] == got[0] + 5);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    /* One of no parts needs none to go. */
    MPI_Precv_init(got, 0, 2, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(sent, 0, 2, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    modes();
    probes();
    completion();
    freed_sends();
    freed_generalized();
    partitioned();
    int both = rank;
    MPI_Sendrecv_replace(&both, 1, MPI_INT, (rank + 1) % size, 3, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(both == (rank + size - 1) % size);
    MPI_Finalize();
    return 0;
}
