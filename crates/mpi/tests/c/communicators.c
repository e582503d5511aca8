#include "check.h"

static int copied, deleted;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int drop(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void attributes(void) {
    int key, flag, *bound;
    char place[4], *value;
    MPI_Comm other;
    MPI_Comm_create_keyval(copy, drop, &key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_attr(other, key, place);
    MPI_Comm twin;
    MPI_Comm_dup(other, &twin);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == place + 1 && copied == 1);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&other);
    CHECK(deleted == 2 && other == MPI_COMM_NULL);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    CHECK(flag && *bound >= 32767);
}

/* A key that was freed keeps its values, which can be taken and deleted; the next key has none of them. */
static void freed_keys(void) {
    int first, second, flag;
    char place, *value;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &first, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, first, &place);
    int number = first;
    MPI_Comm_free_keyval(&first);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &second, NULL);
    MPI_Comm_get_attr(MPI_COMM_SELF, second, &value, &flag);
    CHECK(!flag);
    MPI_Comm_free_keyval(&second);
    MPI_Comm_get_attr(MPI_COMM_SELF, number, &value, &flag);
    CHECK(flag && value == &place);
    MPI_Comm_delete_attr(MPI_COMM_SELF, number);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_get_attr(MPI_COMM_SELF, number, &value, &flag)) == MPI_ERR_KEYVAL);
}

/* A communicator that is freed lives on while something is under way in it (MPI 5.0, 7.4.3). */
static void freed_while_receiving(void) {
    enum { LONG = 1 << 18 };
    static int text[LONG];
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 0 && size > 1) {
        int value = -1;
        MPI_Message message;
        MPI_Request requests[2];
        MPI_Mprobe(1, 1, other, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(text, LONG, MPI_INT, &message, &requests[0]);
        MPI_Irecv(&value, 1, MPI_INT, size - 1, 2, other, &requests[1]);
        MPI_Comm_free(&other);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(text[LONG - 1] == 1 && value == size - 1);
        return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    text[LONG - 1] = rank;
    if (rank == 1) MPI_Isend(text, LONG, MPI_INT, 0, 1, other, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (size > 1 && rank == size - 1) MPI_Send(&rank, 1, MPI_INT, 0, 2, other);
    MPI_Comm_free(&other);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void groups(void) {
    MPI_Group all, odd, none;
    int odds[16], count = 0, where, relation;
    for (int i = 1; i < size; i += 2) odds[count++] = i;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, odds, &odd);
    MPI_Group_rank(odd, &where);
    CHECK(where == (rank % 2 ? rank / 2 : MPI_UNDEFINED));
    MPI_Comm of_odd;
    MPI_Comm_create(MPI_COMM_WORLD, odd, &of_odd);
    CHECK((of_odd == MPI_COMM_NULL) == (rank % 2 == 0));
    if (of_odd != MPI_COMM_NULL) MPI_Comm_free(&of_odd);
    MPI_Group_difference(odd, all, &none);
    CHECK(none == MPI_GROUP_EMPTY);
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Group reversed;
    MPI_Group_range_incl(all, 1, range, &reversed);
    MPI_Group_compare(all, reversed, &relation);
    CHECK(relation == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
    MPI_Group_free(&reversed);
    if (odd != MPI_GROUP_EMPTY) MPI_Group_free(&odd);
    MPI_Group_free(&all);
}

static void splits(void) {
    MPI_Comm half, shared, again;
    MPI_Request request;
    int sum, mine = 1, relation;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, half);
    CHECK(sum == (size + 1 - rank % 2) / 2);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_compare(shared, MPI_COMM_WORLD, &relation);
    CHECK(relation == MPI_CONGRUENT);
    MPI_Comm_idup(shared, &again, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, again);
    CHECK(sum == size);
    MPI_Comm_free(&again);
    MPI_Comm_free(&shared);
    MPI_Comm_free(&half);
}

/* Even and odd ranks talk to each other. */
static void between(void) {
    if (size < 2) return;
    MPI_Comm half, inter, merged;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &inter);
    int others, sum, flag;
    /* Nobody waits in it for rank 0, which begins last. */
    MPI_Comm again;
    MPI_Request request;
    for (int other = 1; rank == 0 && other < size; other++)
        MPI_Recv(NULL, 0, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_idup(inter, &again, &request);
    if (rank != 0) MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int relation, one = 1;
    MPI_Comm_compare(inter, again, &relation);
    CHECK(relation == MPI_CONGRUENT);
    MPI_Comm_remote_size(again, &others);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again);
    CHECK(sum == others);
    MPI_Comm_free(&again);
    MPI_Comm_remote_size(inter, &others);
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag && others == (size + rank % 2) / 2);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    int expected = 0;
    for (int i = 1 - rank % 2; i < size; i += 2) expected += i;
    CHECK(sum == expected);
    int root = rank == 0 ? MPI_ROOT : rank % 2 ? 0 : MPI_PROC_NULL, word = rank == 0 ? 9 : 0;
    MPI_Bcast(&word, 1, MPI_INT, root, inter);
    if (rank % 2) CHECK(word == 9);
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    int place;
    MPI_Comm_rank(merged, &place);
    CHECK(place == (rank % 2 ? (size + 1) / 2 + rank / 2 : rank / 2));
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void topologies(void) {
    MPI_Comm grid, ring;
    int dims[2] = {0, 0}, round[2] = {1, 0}, kind, from, to, here[2];
    MPI_Dims_create(size, 2, dims);
    CHECK(dims[0] * dims[1] == size && dims[0] >= dims[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, round, 0, &grid);
    MPI_Topo_test(grid, &kind);
    CHECK(kind == MPI_CART);
    MPI_Cart_coords(grid, rank, 2, here);
    CHECK(here[0] * dims[1] + here[1] == rank);
    MPI_Cart_shift(grid, 1, 1, &from, &to);
    CHECK((to == MPI_PROC_NULL) == (here[1] == dims[1] - 1));
    MPI_Comm_free(&grid);
    int previous = (rank + size - 1) % size, next = (rank + 1) % size, got = -1;
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, ring);
    CHECK(got == previous);
    MPI_Comm_free(&ring);
}

static void sessions(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int sum, one = 1;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

/* Whether it says that it follows the hint. */
static int has_algorithms(MPI_Comm comm) {
    MPI_Info info;
    char text[1];
    int length = sizeof text, flag;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, "fishplate_algorithms", &length, text, &flag);
    MPI_Info_free(&info);
    return flag;
}

/* The sum of numbers that shows in which order they were added. */
static double sum_by(const char *algorithms, int is_known) {
    static const double numbers[5] = {0, 0, -1e16, 1e16, 1};
    double sum;
    MPI_Info info;
    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, "fishplate_algorithms", algorithms);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    CHECK(has_algorithms(comm) == is_known);
    /* Too late. */
    MPI_Info_set(info, "fishplate_algorithms", "allreduce=ring");
    MPI_Comm_set_info(comm, info);
    CHECK(has_algorithms(comm) == is_known);
    MPI_Allreduce(&numbers[rank % 5], &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
    return sum;
}

static void hints(void) {
    double ordered = sum_by("ordered", 1), doubled = sum_by("allreduce=recursive-doubling", 1), not_known = sum_by("quickly", 0);
    /* ((((0 + 0) - 1e16) + 1e16) + 1), and ((0 + 0) - 1e16) + (1e16 + 1) */
    if (size == 5) CHECK(ordered == 1 && doubled == 0 && not_known == 0);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    attributes();
    freed_keys();
    freed_while_receiving();
    groups();
    splits();
    between();
    topologies();
    sessions();
    hints();
    MPI_Finalize();
    return 0;
}
