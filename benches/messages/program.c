/* program SOCKET: the operations of papers 001 (section 4) and 002 (4.1, 4.2) as a C program for MPI, with buffers of doubles. */
#include <mpi.h>

#include "turn.h"

enum { WINDOW = 10 }; /* messages of a Ping*Pong */

static int rank, size;
static MPI_Comm comm;
static size_t count;
static double *data, *got; /* got: room for the blocks of all ranks at rank 0 */

/* Pairs: one sends so many messages, the other returns all of them. */
static void there_and_back(int messages) {
    int partner = rank ^ 1;
    for (int way = 0; partner < size && way < 2; way++)
        for (int i = 0; i < messages; i++)
            if (rank % 2 == way)
                MPI_Send(way ? got : data, count, MPI_DOUBLE, partner, 0, comm);
            else
                MPI_Recv(got, count, MPI_DOUBLE, partner, 0, comm, MPI_STATUS_IGNORE);
}

static void ping_pong(void) { there_and_back(1); }
static void ping_star_pong(void) { there_and_back(WINDOW); }

/* One rank after the other sends its block of a matrix to all others (paper 001, figure 3c). */
static void matrix(void) {
    size_t block = count / size;
    for (int owner = 0; owner < size; owner++)
        if (owner == rank) {
            for (int to = (rank + 1) % size; to != rank; to = (to + 1) % size)
                MPI_Send(data + rank * block, block, MPI_DOUBLE, to, 0, comm);
        } else {
            MPI_Recv(data + owner * block, block, MPI_DOUBLE, owner, 0, comm, MPI_STATUS_IGNORE);
        }
}

static void broadcast(void) { MPI_Bcast(data, count, MPI_DOUBLE, 0, comm); }
static void gather(void) { MPI_Gather(data, count, MPI_DOUBLE, got, count, MPI_DOUBLE, 0, comm); }
static void barrier(void) { MPI_Barrier(comm); }
static void reduce(void) { MPI_Reduce(data, got, count, MPI_DOUBLE, MPI_SUM, 0, comm); }
static void allreduce(void) { MPI_Allreduce(data, got, count, MPI_DOUBLE, MPI_SUM, comm); }

/* Rank 0 comes late: what do the others do meanwhile? */
static void wait_for_rank_0(void) {
    if (rank == 0) usleep(20000);
    MPI_Barrier(comm);
}

/* What a step of MolDyn says (paper 002, 4.5): forces in three dimensions, three energies, and barriers. */
static void moldyn_step(void) {
    double energy;
    MPI_Barrier(comm);
    MPI_Barrier(comm);
    for (int d = 0; d < 3; d++) MPI_Allreduce(data, got, count, MPI_DOUBLE, MPI_SUM, comm);
    for (int e = 0; e < 3; e++) MPI_Allreduce(data, &energy, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Barrier(comm);
}

/* Rank 0 is told that all have finished: a gather of next to nothing (paper 002, 4.2). */
static void report(void) {
    static char all[1024];
    char mine = 1;
    MPI_Gather(&mine, 1, MPI_CHAR, all, 1, MPI_CHAR, 0, comm);
}

static const struct operation {
    const char *name;
    void (*run)(void);
    int begins_with_barrier, reports;
} OPERATIONS[] = {
    {"pingpong", ping_pong, 0, 0}, {"ping*pong", ping_star_pong, 0, 0}, {"matrix", matrix, 1, 1},
    {"broadcast", broadcast, 1, 1}, {"gather", gather, 1, 0},           {"barrier", barrier, 0, 0},
    {"reduce", reduce, 1, 0},       {"allreduce", allreduce, 1, 1},       {"waiting", wait_for_rank_0, 0, 0},
    {"moldyn", moldyn_step, 0, 0},
};

/* The i-th number that a rank begins with. */
static double begun(int of, size_t i) { return of + i % 1000; }

static void fill(const char *operation) {
    size_t block = count / size;
    for (size_t i = 0; i < count; i++) {
        int others = !strcmp(operation, "broadcast") ? rank != 0 : !strcmp(operation, "matrix") && i / (block ? block : 1) != (size_t)rank;
        data[i] = others ? -1 : begun(rank, i);
    }
}

/* Whether everybody has what the operation should give. */
static int is_right(const char *operation) {
    int right = 1, all;
    size_t block = count / size;
    for (size_t i = 0; i < count; i++) {
        double sum = size * (size - 1) / 2.0 + size * (double)(i % 1000);
        if (!strncmp(operation, "ping", 4) && (rank ^ 1) < size) right &= got[i] == begun(rank & ~1, i);
        if (!strcmp(operation, "matrix") && i < block * size) right &= data[i] == begun(i / block, i);
        if (!strcmp(operation, "broadcast")) right &= data[i] == begun(0, i);
        if (!strcmp(operation, "allreduce") || !strcmp(operation, "moldyn") || (!strcmp(operation, "reduce") && rank == 0)) right &= got[i] == sum;
        if (!strcmp(operation, "gather") && rank == 0)
            for (int from = 0; from < size; from++) right &= got[from * count + i] == begun(from, i);
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_LAND, comm);
    return all;
}

/* All ranks with these algorithms, which only ours are asked for: what is not followed is no measurement. */
static MPI_Comm with_algorithms(const char *algorithms) {
    MPI_Info info;
    MPI_Comm made;
    MPI_Info_create(&info);
    MPI_Info_set(info, "fishplate_algorithms", algorithms);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
    MPI_Info_free(&info);
    char kept[1];
    int length = sizeof kept, is_kept;
    MPI_Comm_get_info(made, &info);
    MPI_Info_get_string(info, "fishplate_algorithms", &length, kept, &is_kept);
    MPI_Info_free(&info);
    if (!is_kept) {
        fprintf(stderr, "the library does not follow the algorithms %s\n", algorithms);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return made;
}

static void take(const struct turn *turn) {
    const struct operation *operation = OPERATIONS;
    while (strcmp(operation->name, turn->operation)) operation++;
    int named = strcmp(turn->algorithms, "-");
    comm = named ? with_algorithms(turn->algorithms) : MPI_COMM_WORLD;
    count = turn->count;
    data = numbers(count);
    got = numbers(!strcmp(operation->name, "gather") && rank == 0 ? count * size : count);
    double *seconds = malloc((turn->repetitions + 1) * sizeof *seconds);
    fill(operation->name);
    int equal = 1;
    /* The first one wakes everybody, and does not count. */
    for (int i = -1; i < turn->repetitions; i++) {
        if (operation->begins_with_barrier) MPI_Barrier(comm);
        double begin = now();
        operation->run();
        if (operation->reports) report();
        if (i >= 0) seconds[i] = now() - begin;
    }
    if (!turn->repetitions) equal = is_right(operation->name);
    if (rank == 0) answer(turn, seconds, equal);
    free(data);
    free(got);
    free(seconds);
    if (named) MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    struct turn turn;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    begin_turns(argv[argc - 1], rank);
    while (next_turn(&turn)) take(&turn);
    MPI_Finalize();
    return 0;
}
