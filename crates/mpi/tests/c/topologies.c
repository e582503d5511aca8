#include "check.h"
#include "ways.h"
#include <limits.h>

/* From whom a rank receives, and which block of a source's is for it. */
static MPI_Comm comm;
static int sources[MOST], in;
static int (*block_for_us)(int source, int at);

static int as_sent(int source, int at) { return (void)source, at; }
static int opposite(int source, int at) { return (void)source, at ^ 1; }
static int own_rank(int source, int at) { return (void)source, (void)at, rank; }
static int star(int source, int at) { return (void)at, source == 0 ? rank - 1 : 0; }

/* Whether each source's block came, and nothing from those that are nobody. */
static int came(int apart, int for_each) {
    for (int i = 0; i < in; i++) {
        int *at = all + (apart ? place(i) : 2 * i), count = apart ? length(sources[i]) : 2;
        if (sources[i] == MPI_PROC_NULL ? *at != -1 : !are(at, count, sources[i], for_each ? 2 * block_for_us(sources[i], i) : 0))
            return 0;
    }
    return apart || is_blank(all + 2 * in);
}

#define BODY "topologies.h"
#include "forms.h"

static void exchange(int (*block)(int, int)) {
    block_for_us = block;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    exchanges();
    exchanges_c();
}

static void grids(void) {
    int sizes[2] = {0, 0}, round[2] = {1, 0}, got[2], got_round[2], here[2], kind, count, other, from, to;
    MPI_Dims_create(size, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, round, 0, &comm);
    MPI_Topo_test(comm, &kind);
    MPI_Cartdim_get(comm, &count);
    MPI_Cart_get(comm, 2, got, got_round, here);
    CHECK(kind == MPI_CART && count == 2 && !memcmp(got, sizes, sizeof got) && got_round[0] && !got_round[1]);
    CHECK(here[0] == rank / sizes[1] && here[1] == rank % sizes[1]);
    /* As many dimensions as there is room for. */
    got[1] = -7;
    MPI_Cart_get(comm, 1, got, got_round, here);
    CHECK(got[0] == sizes[0] && got[1] == -7);
    for (int i = 0; i < size; i++) {
        MPI_Cart_coords(comm, i, 2, here);
        MPI_Cart_rank(comm, here, &other);
        CHECK(other == i);
        here[0] -= 3 * sizes[0];
        MPI_Cart_rank(comm, here, &other);
        CHECK(other == i);
    }
    MPI_Cart_coords(comm, rank, 2, here);
    MPI_Cart_shift(comm, 0, 1, &from, &to);
    CHECK(to == (here[0] + 1) % sizes[0] * sizes[1] + here[1] && from == (here[0] + sizes[0] - 1) % sizes[0] * sizes[1] + here[1]);
    MPI_Cart_shift(comm, 1, -1, &from, &to);
    CHECK(to == (here[1] ? rank - 1 : MPI_PROC_NULL) && from == (here[1] + 1 < sizes[1] ? rank + 1 : MPI_PROC_NULL));
    for (in = 4, count = 0; count < 2; count++) MPI_Cart_shift(comm, count, 1, &sources[2 * count], &sources[2 * count + 1]);
    exchange(opposite);
    MPI_Cart_map(comm, 2, sizes, round, &other);
    CHECK(other == rank);
    int one[2] = {1, 1}, keep[2] = {1, 0}, outside[2] = {0, sizes[1]};
    MPI_Cart_map(comm, 2, one, round, &other);
    CHECK(other == (rank ? MPI_UNDEFINED : 0));
    MPI_Comm row, point;
    MPI_Cart_sub(comm, keep, &row);
    MPI_Comm_size(row, &count);
    MPI_Comm_rank(row, &other);
    CHECK(count == sizes[0] && other == here[0]);
    MPI_Cart_get(row, 1, got, got_round, here);
    CHECK(got[0] == sizes[0] && got_round[0] && here[0] == other);
    MPI_Comm_free(&row);
    /* Without dimensions there is one rank. */
    keep[0] = 0;
    MPI_Cart_sub(comm, keep, &point);
    MPI_Cartdim_get(point, &count);
    MPI_Cart_rank(point, NULL, &other);
    CHECK(count == 0 && other == 0);
    MPI_Comm_free(&point);
    MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &point);
    CHECK((point == MPI_COMM_NULL) == (rank > 0));
    if (rank == 0) MPI_Comm_free(&point);

    CHECK(class_of(MPI_Cart_coords(comm, size, 2, here)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Cart_coords(comm, -1, 2, here)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Cart_rank(comm, outside, &other)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_shift(comm, 2, 1, &from, &to)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_shift(comm, -1, 1, &from, &to)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_get(MPI_COMM_WORLD, 2, got, round, here)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &count)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Cart_sub(MPI_COMM_WORLD, keep, &point)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Graphdims_get(comm, &from, &to)) == MPI_ERR_TOPOLOGY);
    int large[2] = {size, 2}, negative[2] = {-1, 1};
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 2, large, round, 0, &point)) == MPI_ERR_DIMS && point == MPI_COMM_NULL);
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 2, negative, round, 0, &point)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Cart_map(MPI_COMM_WORLD, 2, negative, round, &other)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Dims_create(7, 2, (int[]){2, 0})) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Dims_create(size, 3, (int[]){INT_MAX, INT_MAX, INT_MAX})) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Dims_create(size, 1, (int[]){-1})) == MPI_ERR_DIMS);
    MPI_Comm_free(&comm);
}

/* All are neighbours of rank 0. */
static void stars(void) {
    int index[MOST], edges[2 * MOST], nodes, count, got_index[MOST], got[2 * MOST], kind, other;
    MPI_Comm none;
    for (int i = 0; i < size; i++) index[i] = size - 1 + i;
    for (int i = 1; i < size; i++) edges[i - 1] = i, edges[size - 2 + i] = 0;
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm);
    MPI_Topo_test(comm, &kind);
    MPI_Graphdims_get(comm, &nodes, &count);
    MPI_Graph_get(comm, MOST, 2 * MOST, got_index, got);
    CHECK(kind == MPI_GRAPH && nodes == size && count == 2 * (size - 1));
    CHECK(!memcmp(got_index, index, size * sizeof *index) && !memcmp(got, edges, count * sizeof *got));
    for (int i = 0; i < size; i++) {
        MPI_Graph_neighbors_count(comm, i, &in);
        CHECK(in == (i ? 1 : size - 1));
        got[in] = -7;
        MPI_Graph_neighbors(comm, i, in, got);
        for (int j = 0; j < in; j++) CHECK(got[j] == (i ? 0 : j + 1));
        CHECK(got[in] == -7);
    }
    MPI_Graph_neighbors_count(comm, rank, &in);
    MPI_Graph_neighbors(comm, rank, MOST, sources);
    exchange(star);
    MPI_Graph_map(comm, size, index, edges, &other);
    CHECK(other == rank);
    MPI_Graph_map(comm, 1, (int[]){0}, edges, &other);
    CHECK(other == (rank ? MPI_UNDEFINED : 0));
    CHECK(class_of(MPI_Graph_neighbors_count(comm, size, &count)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Graph_neighbors(comm, size, MOST, got)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Graph_neighbors_count(comm, -1, &count)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Graph_neighbors(MPI_COMM_WORLD, 0, MOST, got)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Graph_get(MPI_COMM_WORLD, 1, 1, got_index, got)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Dist_graph_neighbors_count(comm, &nodes, &kind, &count)) == MPI_ERR_TOPOLOGY);
    MPI_Comm_free(&comm);
    /* Ranks beyond the nodes are in no graph. */
    MPI_Graph_create(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){0}, 1, &none);
    CHECK((none == MPI_COMM_NULL) == (rank > 0));
    if (rank == 0) MPI_Comm_free(&none);
    MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &none);
    CHECK(none == MPI_COMM_NULL);
    index[0] = 1, edges[0] = size;
    CHECK(MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &none) != MPI_SUCCESS);
    for (int i = 0; i <= size; i++) index[i] = 0;
    CHECK(class_of(MPI_Graph_create(MPI_COMM_WORLD, size + 1, index, edges, 0, &none)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Graph_map(MPI_COMM_WORLD, -1, index, edges, &other)) == MPI_ERR_COUNT);
}

/* Each rank has an edge to itself and to all below it, told by its receiver, by its sender, or by somebody else. */
static void distributed(void) {
    int ranks[MOST], degrees[MOST], weights[MOST * MOST], to[MOST * MOST], kind, weighted, out;
    int destinations[MOST], in_weights[MOST], out_weights[MOST];
    for (int i = 0; i < size; i++) ranks[i] = i;
    for (int way = 0; way < 5; way++) {
        int count = 0;
        memset(in_weights, -1, sizeof in_weights);
        memset(out_weights, -1, sizeof out_weights);
        if (way < 2) {
            for (int i = 0; i < size; i++) in_weights[i] = 10 * (rank + i) + 11 * rank, out_weights[i] = 10 * rank + 11 * i;
            MPI_Dist_graph_create_adjacent(
                MPI_COMM_WORLD, size - rank, ranks + rank, way ? MPI_UNWEIGHTED : in_weights, rank + 1, ranks,
                way ? MPI_UNWEIGHTED : out_weights, MPI_INFO_NULL, 0, &comm);
        } else if (way < 4) {
            degrees[0] = rank + 1;
            for (int i = 0; i <= rank; i++) weights[i] = 10 * rank + 11 * i;
            MPI_Dist_graph_create(
                MPI_COMM_WORLD, 1, &rank, degrees, ranks, way == 3 ? MPI_UNWEIGHTED : weights, MPI_INFO_NULL, 0, &comm);
        } else {
            /* Rank 0 tells all of it. */
            for (int i = 0; i < size; i++) {
                degrees[i] = i + 1;
                for (int j = 0; j <= i; j++) to[count] = j, weights[count++] = 10 * i + 11 * j;
            }
            MPI_Dist_graph_create(
                MPI_COMM_WORLD, rank ? 0 : size, ranks, degrees, to, rank ? MPI_WEIGHTS_EMPTY : weights, MPI_INFO_NULL, 1, &comm);
        }
        MPI_Topo_test(comm, &kind);
        MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
        CHECK(kind == MPI_DIST_GRAPH && in == size - rank && out == rank + 1 && weighted == (way % 2 == 0));
        int *unwanted = MPI_UNWEIGHTED;
        MPI_Dist_graph_neighbors(
            comm, in, sources, weighted ? in_weights : unwanted, out, destinations, weighted ? out_weights : unwanted);
        /* Those of MPI_Dist_graph_create may be in any order. */
        int seen = 0;
        for (int i = 0; i < in; i++) {
            seen |= 1 << sources[i];
            CHECK((way > 1 || sources[i] == rank + i) && (!weighted || in_weights[i] == 10 * sources[i] + 11 * rank));
        }
        CHECK(seen == (1 << size) - (1 << rank));
        for (int i = seen = 0; i < out; i++) {
            seen |= 1 << destinations[i];
            CHECK((way > 1 || destinations[i] == i) && (!weighted || out_weights[i] == 10 * rank + 11 * destinations[i]));
        }
        CHECK(seen == (2 << rank) - 1);
        if (way < 2) exchange(own_rank);
        MPI_Comm_free(&comm);
    }
    int high = size, one = 1, negative = -1;
    CHECK(MPI_Dist_graph_create_adjacent(
              MPI_COMM_WORLD, 1, &high, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm) != MPI_SUCCESS);
    CHECK(class_of(MPI_Dist_graph_create_adjacent(
              MPI_COMM_WORLD, 1, &rank, &negative, 1, &rank, &one, MPI_INFO_NULL, 0, &comm)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Dist_graph_create(
              MPI_COMM_WORLD, -1, &rank, &one, &rank, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Dist_graph_neighbors(MPI_COMM_WORLD, 1, ranks, weights, 1, to, weights)) == MPI_ERR_TOPOLOGY);
}

/* Two edges of one pair of ranks: what goes first comes first. */
static void doubled(void) {
    int to[2];
    in = 2, sources[0] = sources[1] = (rank + size - 1) % size, to[0] = to[1] = (rank + 1) % size;
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    exchange(as_sent);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    put(mine, ROOM, rank);
    grids();
    stars();
    distributed();
    doubled();
    wrong();
    wrong_c();
    MPI_Finalize();
    return 0;
}
