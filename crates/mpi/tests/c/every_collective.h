/* What the functions with counts for each rank are told: blocks that lie apart, and pairs. */
static COUNT OWN(lengths)[MOST], OWN(twos)[MOST];
static DISPLACEMENT OWN(places)[MOST], OWN(pairs)[MOST], OWN(bytes)[MOST];
static MPI_Datatype OWN(ints)[MOST];

static void OWN(describe)(void) {
    for (int i = 0; i < MOST; i++) {
        OWN(lengths)[i] = length(i), OWN(places)[i] = place(i);
        OWN(twos)[i] = 2, OWN(pairs)[i] = 2 * i, OWN(bytes)[i] = 2 * i * sizeof(int), OWN(ints)[i] = MPI_INT;
    }
}

#define APART OWN(lengths), OWN(places), MPI_INT
#define PAIRS OWN(twos), OWN(pairs), MPI_INT
#define TYPED_PAIRS OWN(twos), OWN(bytes), OWN(ints)
#define IN_PLACE MPI_IN_PLACE, 0, MPI_DATATYPE_NULL

static void OWN(rooted)(int root) {
    int is_root = rank == root, own = length(rank);
    void *own_part = is_root ? MPI_IN_PLACE : mine;
    static int sent[ROOM], spread[ROOM];
    for (int i = 0; i < size; i++) put(sent + 2 * i, 2, i), put(spread + place(i), length(i), i);
    WAYS(Bcast, bcast, (blank(), put(all, is_root ? 3 : 0, root)), are(all, 3, root, 0) && is_blank(all + 3),
         all, 3, MPI_INT, root, WORLD);
    WAYS(Gather, gather, blank(), is_root ? blocks(2, size) : is_blank(all),
         mine, 2, MPI_INT, all, 2, MPI_INT, root, WORLD);
    WAYS(Gather, gather, (blank(), put(all + 2 * rank, 2, rank)), !is_root || blocks(2, size),
         own_part, 2, MPI_INT, all, 2, MPI_INT, root, WORLD);
    WAYS(Gatherv, gatherv, blank(), is_root ? apart(size) : is_blank(all),
         mine, own, MPI_INT, all, APART, root, WORLD);
    WAYS(Gatherv, gatherv, (blank(), put(all + place(rank), own, rank)), !is_root || apart(size),
         own_part, own, MPI_INT, all, APART, root, WORLD);
    /* What is sent means something at the root only. */
    WAYS(Scatter, scatter, blank(), are(all, 2, rank, 0) && is_blank(all + 2),
         is_root ? sent : NULL, is_root ? 2 : -1, MPI_INT, all, 2, MPI_INT, root, WORLD);
    WAYS(Scatter, scatter, blank(), is_root ? is_blank(all) : are(all, 2, rank, 0),
         sent, 2, MPI_INT, is_root ? MPI_IN_PLACE : all, 2, MPI_INT, root, WORLD);
    WAYS(Scatterv, scatterv, blank(), are(all, own, rank, 0) && is_blank(all + own),
         spread, is_root ? OWN(lengths) : NULL, is_root ? OWN(places) : NULL, MPI_INT, all, own, MPI_INT, root, WORLD);
    WAYS(Scatterv, scatterv, blank(), is_root ? is_blank(all) : are(all, own, rank, 0),
         spread, APART, is_root ? MPI_IN_PLACE : all, own, MPI_INT, root, WORLD);
    WAYS(Reduce, reduce, blank(), is_root ? sums(3, size, 0) && is_blank(all + 3) : is_blank(all),
         mine, all, 3, MPI_INT, MPI_SUM, root, WORLD);
    WAYS(Reduce, reduce, (blank(), put(all, 3, rank)), is_root ? sums(3, size, 0) : are(all, 3, rank, 0),
         is_root ? MPI_IN_PLACE : mine, all, 3, MPI_INT, MPI_SUM, root, WORLD);
}

static void OWN(unrooted)(void) {
    int own = length(rank), begin = 0, total = 0;
    static int sent[ROOM];
    for (int i = 0; i < size; i++) begin += i < rank ? length(i) : 0, total += length(i);
    WAYS(Allgather, allgather, blank(), blocks(2, size), mine, 2, MPI_INT, all, 2, MPI_INT, WORLD);
    WAYS(Allgather, allgather, (blank(), put(all + 2 * rank, 2, rank)), blocks(2, size), IN_PLACE, all, 2, MPI_INT, WORLD);
    WAYS(Allgatherv, allgatherv, blank(), apart(size), mine, own, MPI_INT, all, APART, WORLD);
    WAYS(Allgatherv, allgatherv, (blank(), put(all + place(rank), own, rank)), apart(size), IN_PLACE, all, APART, WORLD);
    put_pairs(sent, size);
    WAYS(Alltoall, alltoall, blank(), pairs_for(rank, size), sent, 2, MPI_INT, all, 2, MPI_INT, WORLD);
    WAYS(Alltoall, alltoall, (blank(), put_pairs(all, size)), pairs_for(rank, size), IN_PLACE, all, 2, MPI_INT, WORLD);
    WAYS(Alltoallv, alltoallv, blank(), pairs_for(rank, size), sent, PAIRS, all, PAIRS, WORLD);
    WAYS(Alltoallv, alltoallv, (blank(), put_pairs(all, size)), pairs_for(rank, size),
         MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, all, PAIRS, WORLD);
    WAYS(Alltoallw, alltoallw, blank(), pairs_for(rank, size), sent, TYPED_PAIRS, all, TYPED_PAIRS, WORLD);
    WAYS(Alltoallw, alltoallw, (blank(), put_pairs(all, size)), pairs_for(rank, size),
         MPI_IN_PLACE, NULL, NULL, NULL, all, TYPED_PAIRS, WORLD);
    WAYS(Allreduce, allreduce, blank(), sums(3, size, 0) && is_blank(all + 3), mine, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Allreduce, allreduce, (blank(), put(all, 3, rank)), sums(3, size, 0), MPI_IN_PLACE, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Scan, scan, blank(), sums(3, rank + 1, 0) && is_blank(all + 3), mine, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Scan, scan, (blank(), put(all, 3, rank)), sums(3, rank + 1, 0), MPI_IN_PLACE, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Exscan, exscan, blank(), rank ? sums(3, rank, 0) : is_blank(all), mine, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Exscan, exscan, (blank(), put(all, 3, rank)), rank ? sums(3, rank, 0) : are(all, 3, 0, 0),
         MPI_IN_PLACE, all, 3, MPI_INT, MPI_SUM, WORLD);
    WAYS(Reduce_scatter, reduce_scatter, blank(), sums(own, size, begin) && is_blank(all + own),
         mine, all, OWN(lengths), MPI_INT, MPI_SUM, WORLD);
    WAYS(Reduce_scatter, reduce_scatter, (blank(), put(all, total, rank)), sums(own, size, begin),
         MPI_IN_PLACE, all, OWN(lengths), MPI_INT, MPI_SUM, WORLD);
    WAYS(Reduce_scatter_block, reduce_scatter_block, blank(), sums(2, size, 2 * rank) && is_blank(all + 2),
         mine, all, 2, MPI_INT, MPI_SUM, WORLD);
    WAYS(Reduce_scatter_block, reduce_scatter_block, (blank(), put(all, 2 * size, rank)), sums(2, size, 2 * rank),
         MPI_IN_PLACE, all, 2, MPI_INT, MPI_SUM, WORLD);
}

/* All ranks are wrong, and none has sent anything. */
static void OWN(wrong)(void) {
    COUNT negative[MOST];
    MPI_Datatype none[MOST];
    for (int i = 0; i < size; i++) negative[i] = -1, none[i] = MPI_DATATYPE_NULL;
    FAILS(MPI_ERR_COMM, Bcast, bcast, all, 1, MPI_INT, 0, MPI_COMM_NULL);
    FAILS(MPI_ERR_ROOT, Bcast, bcast, all, 1, MPI_INT, size, WORLD);
    FAILS(MPI_ERR_ROOT, Bcast, bcast, all, 1, MPI_INT, MPI_ROOT, WORLD);
    FAILS(MPI_ERR_COUNT, Bcast, bcast, all, -1, MPI_INT, 0, WORLD);
    FAILS(MPI_ERR_TYPE, Bcast, bcast, all, 1, MPI_DATATYPE_NULL, 0, WORLD);
    FAILS(MPI_ERR_BUFFER, Bcast, bcast, MPI_IN_PLACE, 1, MPI_INT, 0, WORLD);
    FAILS(MPI_ERR_ROOT, Gather, gather, mine, 1, MPI_INT, all, 1, MPI_INT, -1, WORLD);
    FAILS(MPI_ERR_COUNT, Gather, gather, mine, -1, MPI_INT, all, 1, MPI_INT, 0, WORLD);
    FAILS(MPI_ERR_ROOT, Gatherv, gatherv, mine, 1, MPI_INT, all, APART, size, WORLD);
    FAILS(MPI_ERR_TYPE, Gatherv, gatherv, mine, 1, MPI_DATATYPE_NULL, all, APART, 0, WORLD);
    FAILS(MPI_ERR_ROOT, Scatter, scatter, mine, 1, MPI_INT, all, 1, MPI_INT, size, WORLD);
    FAILS(MPI_ERR_COUNT, Scatter, scatter, mine, 1, MPI_INT, all, -1, MPI_INT, 0, WORLD);
    FAILS(MPI_ERR_ROOT, Scatterv, scatterv, mine, APART, all, 1, MPI_INT, -7, WORLD);
    FAILS(MPI_ERR_TYPE, Scatterv, scatterv, mine, APART, all, 1, MPI_DATATYPE_NULL, 0, WORLD);
    FAILS(MPI_ERR_COUNT, Allgather, allgather, mine, 1, MPI_INT, all, -1, MPI_INT, WORLD);
    FAILS(MPI_ERR_BUFFER, Allgather, allgather, mine, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, WORLD);
    FAILS(MPI_ERR_COUNT, Allgatherv, allgatherv, mine, 1, MPI_INT, all, negative, OWN(places), MPI_INT, WORLD);
    FAILS(MPI_ERR_TYPE, Alltoall, alltoall, mine, 1, MPI_DATATYPE_NULL, all, 1, MPI_INT, WORLD);
    FAILS(MPI_ERR_COUNT, Alltoallv, alltoallv, mine, negative, OWN(places), MPI_INT, all, PAIRS, WORLD);
    FAILS(MPI_ERR_TYPE, Alltoallw, alltoallw, mine, TYPED_PAIRS, all, OWN(twos), OWN(bytes), none, WORLD);
    FAILS(MPI_ERR_ROOT, Reduce, reduce, mine, all, 1, MPI_INT, MPI_SUM, size, WORLD);
    FAILS(MPI_ERR_OP, Reduce, reduce, mine, all, 1, MPI_INT, MPI_OP_NULL, 0, WORLD);
    FAILS(MPI_ERR_OP, Allreduce, allreduce, mine, all, 1, MPI_DOUBLE, MPI_BAND, WORLD);
    FAILS(MPI_ERR_OP, Allreduce, allreduce, mine, all, 1, MPI_INT, MPI_MINLOC, WORLD);
    FAILS(MPI_ERR_COUNT, Scan, scan, mine, all, -1, MPI_INT, MPI_SUM, WORLD);
    FAILS(MPI_ERR_TYPE, Exscan, exscan, mine, all, 1, MPI_DATATYPE_NULL, MPI_SUM, WORLD);
    FAILS(MPI_ERR_COUNT, Reduce_scatter, reduce_scatter, mine, all, negative, MPI_INT, MPI_SUM, WORLD);
    FAILS(MPI_ERR_OP, Reduce_scatter_block, reduce_scatter_block, mine, all, 1, MPI_INT, MPI_OP_NULL, WORLD);
}

/* Even and odd ranks: what one group gives, the other gets. */
static void OWN(between_groups)(MPI_Comm inter) {
    int local, others, ours, begin;
    COUNT parts[MOST];
    static int sent[ROOM];
    MPI_Comm_rank(inter, &local);
    MPI_Comm_size(inter, &ours);
    MPI_Comm_remote_size(inter, &others);
    for (int of = 0; of < 2; of++) {
        /* The last rank of one group is the root. */
        int last = of == 0 ? (size - 1) / 2 * 2 : size / 2 * 2 - 1, is_root = rank == last;
        int gets = rank % 2 != of, root = is_root ? MPI_ROOT : gets ? last / 2 : MPI_PROC_NULL;
        int own = length(local);
        WAYS(Bcast, bcast, (blank(), put(all, is_root ? 3 : 0, last)), gets || is_root ? are(all, 3, last, 0) : is_blank(all),
             all, 3, MPI_INT, root, inter);
        WAYS(Scatter, scatter, blank(), gets ? are(all, 2, last, 2 * local) && is_blank(all + 2) : is_blank(all),
             mine, 2, MPI_INT, all, 2, MPI_INT, root, inter);
        WAYS(Scatterv, scatterv, blank(), gets ? are(all, own, last, place(local)) && is_blank(all + own) : is_blank(all),
             mine, APART, all, own, MPI_INT, root, inter);
        WAYS(Gather, gather, blank(), is_root ? blocks(2, others) : is_blank(all),
             mine, 2, MPI_INT, all, 2, MPI_INT, root, inter);
        WAYS(Gatherv, gatherv, blank(), is_root ? apart(others) : is_blank(all), mine, own, MPI_INT, all, APART, root, inter);
        WAYS(Reduce, reduce, blank(), is_root ? sums(3, others, 0) && is_blank(all + 3) : is_blank(all),
             mine, all, 3, MPI_INT, MPI_SUM, root, inter);
    }
    WAYS(Allgather, allgather, blank(), blocks(2, others), mine, 2, MPI_INT, all, 2, MPI_INT, inter);
    WAYS(Allgatherv, allgatherv, blank(), apart(others), mine, length(local), MPI_INT, all, APART, inter);
    put_pairs(sent, others);
    WAYS(Alltoall, alltoall, blank(), pairs_for(local, others), sent, 2, MPI_INT, all, 2, MPI_INT, inter);
    WAYS(Alltoallv, alltoallv, blank(), pairs_for(local, others), sent, PAIRS, all, PAIRS, inter);
    WAYS(Alltoallw, alltoallw, blank(), pairs_for(local, others), sent, TYPED_PAIRS, all, TYPED_PAIRS, inter);
    WAYS(Allreduce, allreduce, blank(), sums(3, others, 0) && is_blank(all + 3), mine, all, 3, MPI_INT, MPI_SUM, inter);
    /* Both groups reduce as many elements as there are pairs of ranks; the first rank gets one less than its share. */
    for (int i = 0; i < ours; i++) parts[i] = others;
    if (ours > 1) parts[0]--, parts[1]++;
    begin = local * others - (ours > 1 && local == 1);
    WAYS(Reduce_scatter, reduce_scatter, blank(), sums(parts[local], others, begin) && is_blank(all + parts[local]),
         mine, all, parts, MPI_INT, MPI_SUM, inter);
    WAYS(Reduce_scatter_block, reduce_scatter_block, blank(), sums(others, others, local * others) && is_blank(all + others),
         mine, all, others, MPI_INT, MPI_SUM, inter);
    FAILS(MPI_ERR_COMM, Scan, scan, mine, all, 1, MPI_INT, MPI_SUM, inter);
    FAILS(MPI_ERR_COMM, Exscan, exscan, mine, all, 1, MPI_INT, MPI_SUM, inter);
    FAILS(MPI_ERR_ROOT, Bcast, bcast, all, 1, MPI_INT, MPI_ANY_SOURCE, inter);
}

#undef APART
#undef PAIRS
#undef TYPED_PAIRS
#undef IN_PLACE
