#include "check.h"
#include <limits.h>

enum { MOST = 16 };

static MPI_Group world;

/* Whether a group has these members of the world, in this order. Frees it. */
static int has(MPI_Group *group, int count, const int *members) {
    int in_world[MOST], order[MOST], members_count, own = MPI_UNDEFINED, own_found;
    MPI_Group_size(*group, &members_count);
    MPI_Group_rank(*group, &own_found);
    for (int i = 0; i < members_count; i++) order[i] = i;
    MPI_Group_translate_ranks(*group, members_count, order, world, in_world);
    for (int i = 0; i < count; i++)
        if (members[i] == rank) own = i;
    int is = count == members_count && own == own_found && !memcmp(members, in_world, count * sizeof *members);
    MPI_Group_free(group);
    return is && *group == MPI_GROUP_NULL;
}

/* Those in order of which a bit is set. */
static int chosen(unsigned bits, int *members) {
    int count = 0;
    for (int i = 0; i < size; i++)
        if (bits >> i & 1) members[count++] = i;
    return count;
}

static MPI_Group group_of(unsigned bits) {
    int members[MOST], count = chosen(bits, members);
    MPI_Group group;
    MPI_Group_incl(world, count, members, &group);
    return group;
}

/* Every pair of subsets. */
static void sets(void) {
    for (unsigned left = 0; left < 1u << size; left++)
        for (unsigned right = 0; right < 1u << size; right++) {
            MPI_Group a = group_of(left), b = group_of(right), made;
            int members[MOST], count, relation;
            MPI_Group_intersection(a, b, &made);
            CHECK(has(&made, chosen(left & right, members), members));
            MPI_Group_difference(a, b, &made);
            CHECK(has(&made, chosen(left & ~right, members), members));
            /* The first group's members come first. */
            count = chosen(left, members);
            count += chosen(right & ~left, members + count);
            MPI_Group_union(a, b, &made);
            CHECK(has(&made, count, members));
            count = chosen(left, members);
            MPI_Group_excl(world, count, members, &made);
            CHECK(has(&made, chosen(~left, members), members));
            MPI_Group_compare(a, b, &relation);
            CHECK(relation == (left == right ? MPI_IDENT : MPI_UNEQUAL));
            MPI_Group_free(&a);
            MPI_Group_free(&b);
        }
}

static void ranges(void) {
    int members[MOST], count = 0, other, relation;
    MPI_Group made, odd;
    int backwards[1][3] = {{size - 1, 0, -1}}, second[1][3] = {{0, size - 1, 2}};
    int two[2][3] = {{size - 1, size - 1, 1}, {0, size - 2, 1}};
    for (int i = size - 1; i >= 0; i--) members[count++] = i;
    MPI_Group_range_incl(world, 1, backwards, &made);
    MPI_Group_compare(world, made, &relation);
    CHECK(relation == (size == 1 ? MPI_IDENT : MPI_SIMILAR) && has(&made, size, members));
    for (int i = count = 0; i < size; i += 2) members[count++] = i;
    MPI_Group_range_incl(world, 1, second, &made);
    CHECK(has(&made, count, members));
    MPI_Group_range_excl(world, 1, second, &odd);
    for (int i = 1, at = 0; i < size; i += 2) members[at++] = i;
    CHECK(has(&odd, size / 2, members));
    MPI_Group_range_excl(world, 1, backwards, &made);
    CHECK(has(&made, 0, members));
    MPI_Group_range_excl(world, 0, NULL, &made);
    MPI_Group_compare(world, made, &relation);
    CHECK(relation == MPI_IDENT);
    MPI_Group_free(&made);
    if (size > 1) {
        members[0] = size - 1;
        for (int i = 0; i < size - 1; i++) members[i + 1] = i;
        MPI_Group_range_incl(world, 2, two, &made);
        CHECK(has(&made, size, members));
    }
    /* Ranks that are not there, twice there, too many to list, or reached by no step. */
    int wrong[][3] = {{0, size, 1}, {-1, 0, 1}, {0, INT_MAX, 1}, {INT_MAX, 0, -1}, {0, INT_MIN, -1}};
    for (int i = 0; i < 5; i++) {
        CHECK(class_of(MPI_Group_range_incl(world, 1, &wrong[i], &made)) == MPI_ERR_RANK);
        CHECK(class_of(MPI_Group_range_excl(world, 1, &wrong[i], &made)) == MPI_ERR_RANK);
    }
    int twice[2][3] = {{0, 0, 1}, {0, 0, 1}}, no_step[1][3] = {{0, 0, 0}};
    CHECK(class_of(MPI_Group_range_incl(world, 2, twice, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_range_incl(world, 1, no_step, &made)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_incl(world, -1, no_step, &made)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Group_incl(world, 2, (int[]){0, 0}, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_incl(world, 1, &size, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_excl(world, 1, &size, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_translate_ranks(world, 1, &size, world, &other)) == MPI_ERR_RANK);
    MPI_Group_translate_ranks(world, 1, (int[]){MPI_PROC_NULL}, world, &other);
    CHECK(other == MPI_PROC_NULL);
    MPI_Group_translate_ranks(world, 1, (int[]){0}, MPI_GROUP_EMPTY, &other);
    CHECK(other == MPI_UNDEFINED);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &other)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Group_union(world, MPI_GROUP_NULL, &made)) == MPI_ERR_GROUP);
    MPI_Group_size(MPI_GROUP_EMPTY, &other);
    CHECK(other == 0);
}

/* Communicators of groups: all even ranks take part, and then all ranks with a group of their own. */
static void communicators(void) {
    int members[MOST], count = 0, own, relation, sum, one = 1;
    MPI_Comm made;
    MPI_Group group, of_made;
    for (int i = rank % 2; i < size; i += 2) members[count++] = i;
    MPI_Group_incl(world, count, members, &group);
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &made);
        MPI_Comm_group(made, &of_made);
        MPI_Group_compare(group, of_made, &relation);
        MPI_Comm_rank(made, &own);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
        CHECK(relation == MPI_IDENT && own == rank / 2 && sum == count);
        MPI_Group_free(&of_made);
        MPI_Comm_disconnect(&made);
        CHECK(made == MPI_COMM_NULL);
    }
    MPI_Comm_create(MPI_COMM_WORLD, group, &made);
    MPI_Comm_size(made, &sum);
    CHECK(sum == count);
    MPI_Comm_free(&made);
    MPI_Group_free(&group);
    CHECK(class_of(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &made)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_NULL, 0, &made)) == MPI_ERR_GROUP);
    MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &made);
    CHECK(made == MPI_COMM_NULL);
    CHECK(class_of(MPI_Comm_split(MPI_COMM_WORLD, -1, 0, &made)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split_type(MPI_COMM_WORLD, -1, 0, MPI_INFO_NULL, &made)) == MPI_ERR_ARG);
    made = MPI_COMM_WORLD;
    CHECK(class_of(MPI_Comm_free(&made)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_disconnect(&made)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_remote_size(MPI_COMM_WORLD, &sum)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_remote_group(MPI_COMM_WORLD, &group)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &made)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_dup(MPI_COMM_NULL, &made)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_NULL, &sum)) == MPI_ERR_COMM);
    MPI_Comm_get_parent(&made);
    CHECK(made == MPI_COMM_NULL);
}

/* Whether an inter-communicator has these groups; ranks are the world's. */
static int is_between(MPI_Comm inter, int ours, const int *own, int theirs, const int *others) {
    MPI_Group local, remote;
    MPI_Comm_group(inter, &local);
    MPI_Comm_remote_group(inter, &remote);
    return has(&local, ours, own) & has(&remote, theirs, others);
}

static void intercommunicators(void) {
    if (size < 2) return;
    int own[MOST], others[MOST], ours = 0, theirs = 0, relation, flag;
    MPI_Comm half, inter, made;
    MPI_Group group;
    for (int i = rank % 2; i < size; i += 2) own[ours++] = i;
    for (int i = 1 - rank % 2; i < size; i += 2) others[theirs++] = i;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &inter);
    CHECK(is_between(inter, ours, own, theirs, others));
    MPI_Comm_compare(inter, MPI_COMM_WORLD, &relation);
    CHECK(relation == MPI_UNEQUAL);
    MPI_Comm_dup(inter, &made);
    MPI_Comm_test_inter(made, &flag);
    MPI_Comm_compare(inter, made, &relation);
    CHECK(flag && relation == MPI_CONGRUENT && is_between(made, ours, own, theirs, others));
    MPI_Comm_free(&made);
    /* Of the first of each group only. */
    MPI_Comm_group(half, &group);
    MPI_Group first;
    MPI_Group_incl(group, 1, (int[]){0}, &first);
    MPI_Comm_create(inter, first, &made);
    CHECK((made != MPI_COMM_NULL) == (rank < 2));
    if (rank < 2) {
        CHECK(is_between(made, 1, own, 1, others));
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&first);
    MPI_Group_free(&group);
    /* Each with its neighbour; who has none is alone, and has no communicator. */
    MPI_Comm_split(inter, rank / 2, 0, &made);
    CHECK((made != MPI_COMM_NULL) == ((rank ^ 1) < size));
    if (made != MPI_COMM_NULL) {
        int neighbour = rank ^ 1, got = -1;
        CHECK(is_between(made, 1, &rank, 1, &neighbour));
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, made, MPI_STATUS_IGNORE);
        CHECK(got == neighbour);
        CHECK(class_of(MPI_Send(&rank, 1, MPI_INT, 1, 0, made)) == MPI_ERR_RANK);
        MPI_Comm_disconnect(&made);
    }
    CHECK(class_of(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &made)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_create(half, -1, MPI_COMM_WORLD, 0, 0, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Intercomm_create(half, ours, MPI_COMM_WORLD, 0, 0, &made)) == MPI_ERR_RANK);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void duplicates(void) {
    MPI_Info info, told;
    MPI_Comm made;
    MPI_Request request;
    char text[16];
    int flag, length = sizeof text, relation;
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "green");
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &made, &request);
    MPI_Info_free(&info);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_compare(MPI_COMM_WORLD, made, &relation);
    MPI_Comm_get_info(made, &told);
    MPI_Info_get_string(told, "colour", &length, text, &flag);
    CHECK(relation == MPI_CONGRUENT && flag && !strcmp(text, "green"));
    MPI_Info_free(&told);
    MPI_Comm_free(&made);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    sets();
    ranges();
    communicators();
    intercommunicators();
    duplicates();
    MPI_Group_free(&world);
    CHECK(class_of(MPI_Group_free(&world)) == MPI_ERR_GROUP);
    MPI_Finalize();
    return 0;
}
