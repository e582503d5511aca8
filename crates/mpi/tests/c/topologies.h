/* The operations among neighbours of `comm`, each in three ways. */
static void OWN(exchanges)(void) {
    COUNT lengths[MOST], twos[MOST];
    DISPLACEMENT places[MOST], pairs[MOST];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < MOST; i++) {
        lengths[i] = i < in && sources[i] != MPI_PROC_NULL ? length(sources[i]) : 1, places[i] = place(i);
        twos[i] = 2, pairs[i] = 2 * i, bytes[i] = 2 * i * sizeof(int), types[i] = MPI_INT;
    }
    WAYS(Neighbor_allgather, neighbor_allgather, blank(), came(0, 0), mine, 2, MPI_INT, all, 2, MPI_INT, comm);
    WAYS(Neighbor_allgatherv, neighbor_allgatherv, blank(), came(1, 0),
         mine, length(rank), MPI_INT, all, lengths, places, MPI_INT, comm);
    WAYS(Neighbor_alltoall, neighbor_alltoall, blank(), came(0, 1), mine, 2, MPI_INT, all, 2, MPI_INT, comm);
    WAYS(Neighbor_alltoallv, neighbor_alltoallv, blank(), came(0, 1),
         mine, twos, pairs, MPI_INT, all, twos, pairs, MPI_INT, comm);
    WAYS(Neighbor_alltoallw, neighbor_alltoallw, blank(), came(0, 1),
         mine, twos, bytes, types, all, twos, bytes, types, comm);
    FAILS(MPI_ERR_COUNT, Neighbor_allgather, neighbor_allgather, mine, -1, MPI_INT, all, 2, MPI_INT, comm);
    FAILS(MPI_ERR_TYPE, Neighbor_alltoall, neighbor_alltoall, mine, 2, MPI_INT, all, 2, MPI_DATATYPE_NULL, comm);
}

static void OWN(wrong)(void) {
    COUNT counts[1] = {1};
    DISPLACEMENT at[1] = {0};
    MPI_Aint bytes[1] = {0};
    MPI_Datatype types[1] = {MPI_INT};
    MPI_Comm none = MPI_COMM_WORLD;
    FAILS(MPI_ERR_TOPOLOGY, Neighbor_allgather, neighbor_allgather, mine, 1, MPI_INT, all, 1, MPI_INT, none);
    FAILS(MPI_ERR_TOPOLOGY, Neighbor_allgatherv, neighbor_allgatherv, mine, 1, MPI_INT, all, counts, at, MPI_INT, none);
    FAILS(MPI_ERR_TOPOLOGY, Neighbor_alltoall, neighbor_alltoall, mine, 1, MPI_INT, all, 1, MPI_INT, none);
    FAILS(MPI_ERR_TOPOLOGY, Neighbor_alltoallv, neighbor_alltoallv, mine, counts, at, MPI_INT, all, counts, at, MPI_INT, none);
    FAILS(MPI_ERR_TOPOLOGY, Neighbor_alltoallw, neighbor_alltoallw, mine, counts, bytes, types, all, counts, bytes, types, none);
}
