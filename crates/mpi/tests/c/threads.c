#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200 };

/* Each thread talks to its like on the next rank, in a communicator of its own, while a generalized request waits. */
static void *talk(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int got, sum;
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(got == i && sum == i * size);
    }
    return NULL;
}

static int query(void *extra, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = *(int *)extra;
    return MPI_SUCCESS;
}

static int nothing(void *extra) { return (void)extra, MPI_SUCCESS; }
static int no_cancel(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

static void *finish(void *request) {
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, source = 17, count;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS], other;
    MPI_Comm comms[THREADS];
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, nothing, no_cancel, &source, &request);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, talk, &comms[i]);
    pthread_create(&other, NULL, finish, &request);
    MPI_Request waited = request;
    MPI_Wait(&waited, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(status.MPI_SOURCE == 17 && count == 3);
    pthread_join(other, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
