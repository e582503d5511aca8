/* heat: a rod that is heated at its left end, cut into as many pieces as there are ranks. It goes on until it is told to stop.
 *
 * A plain MPI program that knows nothing of Fishplate. Whoever steers it sends rank 0 messages as if they came from rank 0: a
 * double with the tag SET is the new temperature of the left end; anything with the tag STOP ends the run. After each of them
 * rank 0 sends itself three doubles with the tag STATE, which it never receives, so that the other takes them: steps that were
 * done, the temperature of the left end, the rod's mean temperature. Bytes are in the machine's order.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 200, CHECK = 100 }; /* cells of a rank; steps between two looks for messages */
enum { SET = 1, STOP = 2, STATE = 3 };
static const double DIFFUSION = 0.4; /* times the step, by the square of a cell */

static int rank, size;
static double now[CELLS + 2], then[CELLS + 2];

/* One step; both ends of the rod are held. */
static void step(double left, double right) {
    int before = rank > 0 ? rank - 1 : MPI_PROC_NULL, behind = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    now[0] = left;
    now[CELLS + 1] = right;
    MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, before, 0, &now[CELLS + 1], 1, MPI_DOUBLE, behind, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&now[CELLS], 1, MPI_DOUBLE, behind, 0, &now[0], 1, MPI_DOUBLE, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 1; i <= CELLS; i++) then[i] = now[i] + DIFFUSION * (now[i - 1] - 2 * now[i] + now[i + 1]);
    for (int i = 1; i <= CELLS; i++) now[i] = then[i];
}

/* Whether there is a message with that tag, which may have any length; if it is a double, that is the temperature. */
static int take(int tag, double *temperature) {
    int there, length;
    MPI_Status status;
    MPI_Iprobe(0, tag, MPI_COMM_WORLD, &there, &status);
    if (!there) return 0;
    MPI_Get_count(&status, MPI_BYTE, &length);
    void *message = malloc((size_t)length + 1);
    MPI_Recv(message, length, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (length == sizeof *temperature) memcpy(temperature, message, sizeof *temperature);
    free(message);
    return 1;
}

/* What rank 0 was told: order[0] is SET, STOP or 0, order[1] the temperature. */
static void look(double order[2]) {
    order[0] = take(SET, &order[1]) ? SET : take(STOP, &order[1]) ? STOP : 0;
}

int main(int argc, char **argv) {
    double left = 100, order[2] = {0, left}, steps = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (order[0] != STOP) {
        for (int i = 0; i < CHECK; i++) step(left, 0);
        steps += CHECK;
        if (rank == 0) look(order);
        MPI_Bcast(order, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (order[0] == 0) continue;
        if (order[0] == SET) left = order[1];
        double sum = 0, mean = 0;
        for (int i = 1; i <= CELLS; i++) sum += now[i];
        MPI_Reduce(&sum, &mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        mean /= (double)CELLS * size;
        if (rank == 0) {
            double state[3] = {steps, left, mean};
            MPI_Ssend(state, 3, MPI_DOUBLE, 0, STATE, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) printf("stopped after %.0f steps\n", steps);
    MPI_Finalize();
    return 0;
}
