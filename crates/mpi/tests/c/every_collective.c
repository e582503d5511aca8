#include "check.h"
#include "ways.h"

/* Whose data a rank gets: all of the world's, or the other group's. */
static int first_sender = 0, step = 1;
static int sender(int i) { return first_sender + step * i; }

/* A block of each sender, one after the other. */
static int blocks(int count, int senders) {
    for (int i = 0; i < senders; i++)
        if (!are(all + i * count, count, sender(i), 0)) return 0;
    return is_blank(all + count * senders);
}

static int apart(int senders) {
    for (int i = 0; i < senders; i++)
        if (!are(all + place(i), length(i), sender(i), 0) || all[place(i) + length(i)] != -1) return 0;
    return all[0] == -1;
}

/* Two elements for each receiver. */
static void put_pairs(int *to, int receivers) {
    for (int i = 0; i < receivers; i++) to[2 * i] = value(rank, i), to[2 * i + 1] = value(rank, i) + 50;
}

static int pairs_for(int receiver, int senders) {
    for (int i = 0; i < senders; i++)
        if (all[2 * i] != value(sender(i), receiver) || all[2 * i + 1] != value(sender(i), receiver) + 50) return 0;
    return is_blank(all + 2 * senders);
}

/* Sums of all senders' elements, from `begin` on. */
static int sums(int count, int senders, int begin) {
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int j = 0; j < senders; j++) sum += value(sender(j), begin + i);
        if (all[i] != sum) return 0;
    }
    return 1;
}

#define WORLD MPI_COMM_WORLD
#define BODY "every_collective.h"
#include "forms.h"

static void barriers(MPI_Comm comm) {
#define FORM(name) MPI_##name
    WAYS(Barrier, barrier, (void)0, 1, comm);
    FAILS(MPI_ERR_COMM, Barrier, barrier, MPI_COMM_NULL);
#undef FORM
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    put(mine, ROOM, rank);
    describe();
    describe_c();
    barriers(MPI_COMM_WORLD);
    for (int root = 0; root < size; root++) {
        rooted(root);
        rooted_c(root);
    }
    unrooted();
    unrooted_c();
    wrong();
    wrong_c();
    if (size > 1) {
        MPI_Comm half, inter;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        barriers(inter);
        first_sender = 1 - rank % 2, step = 2;
        between_groups(inter);
        between_groups_c(inter);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    MPI_Finalize();
    return 0;
}
