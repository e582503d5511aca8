#include "check.h"
#include <pthread.h>

static void destructor(void) { fputs("a destructor ran\n", stderr); }

/* Holds what a lock may be around as often as it can. */
static void *ask(void *nothing) {
    for (;;) MPI_Wtime();
    return nothing;
}

/* One rank aborts, with something unwritten in a stream and threads that go on; the others wait for it. */
int main(int argc, char **argv) {
    int provided;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        atexit(destructor);
        for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, ask, NULL);
        printf("last words");
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
