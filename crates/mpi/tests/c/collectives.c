#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

/* Left-to-right composition of x -> a x + b: associative, not commutative. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    long *l = left, *r = right;
    for (int i = 0; i < *count; i++) {
        long a = l[2 * i] * r[2 * i], b = l[2 * i + 1] * r[2 * i] + r[2 * i + 1];
        r[2 * i] = a, r[2 * i + 1] = b;
    }
}

static void reductions(void) {
    double number = rank + 1, sum, most;
    MPI_Allreduce(&number, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size + 1) / 2.0);
    MPI_Reduce(&number, &most, 1, MPI_DOUBLE, MPI_MAX, size - 1, MPI_COMM_WORLD);
    if (rank == size - 1) CHECK(most == size);
    struct { double value; int index; } mine = {-rank, rank}, least;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(least.value == 1 - size && least.index == size - 1);
    long double wide = 0.5L + rank, wides;
    MPI_Allreduce(&wide, &wides, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(wides == 0.5L * size + size * (size - 1) / 2);
    unsigned char bit = 1 << rank, bits;
    MPI_Allreduce(&bit, &bits, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    CHECK(bits == (1 << size) - 1);
    MPI_Op op;
    MPI_Datatype pair;
    int commutes;
    MPI_Op_create(compose, 0, &op);
    MPI_Op_commutative(op, &commutes);
    CHECK(!commutes);
    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    long map[2] = {2, rank}, all[2], expected[2] = {1, 0}, prefix[2];
    MPI_Allreduce(map, all, 1, pair, op, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) expected[0] *= 2, expected[1] = 2 * expected[1] + i;
    CHECK(all[0] == expected[0] && all[1] == expected[1]);
    MPI_Scan(map, prefix, 1, pair, op, MPI_COMM_WORLD);
    long at[2] = {1, 0};
    for (int i = 0; i <= rank; i++) at[0] *= 2, at[1] = 2 * at[1] + i;
    CHECK(prefix[0] == at[0] && prefix[1] == at[1]);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    int parts[16], own = 0, counts[16];
    for (int i = 0; i < size; i++) parts[i] = i, counts[i] = 1;
    MPI_Reduce_scatter(parts, &own, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(own == rank * size);
}

enum { BACK = 1000 };

/* Elements of two numbers, the first of which is far before the element. */
static void add_apart(void *left, void *right, int *count, MPI_Datatype *type) {
    MPI_Aint least, extent;
    MPI_Type_get_extent(*type, &least, &extent);
    for (int i = 0; i < *count; i++) {
        long *l = (long *)((char *)left + i * extent), *r = (long *)((char *)right + i * extent);
        r[-BACK] += l[-BACK], r[0] += l[0];
    }
}

static void reductions_before_the_buffer(void) {
    MPI_Op op;
    MPI_Datatype apart, stepping;
    int lengths[2] = {1, 1}, at[2] = {-BACK, 0};
    MPI_Op_create(add_apart, 1, &op);
    MPI_Type_indexed(2, lengths, at, MPI_LONG, &apart);
    /* Forwards by the extent that it has, and backwards by 8 bytes. */
    MPI_Type_create_resized(apart, 0, -(MPI_Aint)sizeof(long), &stepping);
    MPI_Datatype types[2] = {apart, stepping};
    for (int which = 0; which < 2; which++) {
        static long mine[6 * BACK], sums[6 * BACK];
        long *from = mine + 2 * BACK, *to = sums + 2 * BACK, step = which == 0 ? BACK + 1 : -1;
        MPI_Type_commit(&types[which]);
        for (int i = 0; i < 3; i++) from[i * step] = i + rank, from[i * step - BACK] = 10 * i + rank;
        MPI_Allreduce(from, to, 3, types[which], op, MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++) {
            CHECK(to[i * step] == i * size + size * (size - 1) / 2);
            CHECK(to[i * step - BACK] == 10 * i * size + size * (size - 1) / 2);
        }
        MPI_Type_free(&types[which]);
    }
    MPI_Op_free(&op);
}

static long long counted;
static char *expected_right;

static void add_and_change(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)right)[i] += ((int *)left)[i], ((int *)left)[i] = -1;
}

/* What a function writes to its first operand is never a program's send buffer. */
static void changed_operands(void) {
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op op;
        int mine = rank + 1, sum = 0;
        MPI_Op_create(add_and_change, commutes, &op);
        for (int root = 0; root < size; root++) {
            MPI_Reduce(&mine, &sum, 1, MPI_INT, op, root, MPI_COMM_WORLD);
            CHECK(mine == rank + 1 && (rank != root || sum == size * (size + 1) / 2));
        }
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
        CHECK(mine == rank + 1 && sum == size * (size + 1) / 2);
        MPI_Op_free(&op);
    }
}

static void count_elements(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)left, (void)type;
    CHECK(right == expected_right + counted);
    counted += *count;
}

/* More elements than an int counts, in memory that nobody touches. */
static void many_elements(void) {
    MPI_Count many = (1LL << 31) + 5;
    MPI_Op op;
    void *operands = mmap(NULL, 2 * many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(operands != MAP_FAILED);
    counted = 0, expected_right = (char *)operands + many;
    MPI_Op_create(count_elements, 1, &op);
    MPI_Reduce_local_c(operands, expected_right, many, MPI_BYTE, op);
    CHECK(counted == many);
    MPI_Op_free(&op);
    munmap(operands, 2 * many);
}

static MPI_Datatype given;

static void add_pairs(void *left, void *right, int *count, MPI_Datatype *type) {
    int bytes;
    CHECK(*type == given && MPI_Type_size(*type, &bytes) == MPI_SUCCESS && bytes == (int)(2 * sizeof(long)));
    for (int i = 0; i < 2 * *count; i++) ((long *)right)[i] += ((long *)left)[i];
}

/* A datatype and an operation that are freed while a reduction needs them. */
static void freed_while_reducing(void) {
    long mine[2] = {rank, 2 * rank}, sums[2];
    MPI_Op op;
    MPI_Datatype pair, next;
    MPI_Request request;
    MPI_Op_create(add_pairs, 1, &op);
    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    given = pair;
    /* Rank 0's can't be over before it is freed there. */
    if (rank > 0) MPI_Recv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(mine, sums, 1, pair, op, MPI_COMM_WORLD, &request);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    MPI_Type_contiguous(3, MPI_LONG, &next);
    CHECK(pair == MPI_DATATYPE_NULL && (size == 1 || rank > 0 || next != given));
    for (int to = 1; rank == 0 && to < size; to++) MPI_Send(NULL, 0, MPI_INT, to, 8, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sums[0] == size * (size - 1) / 2 && sums[1] == 2 * sums[0]);
    MPI_Type_free(&next);
    /* Now it is free. */
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Type_get_name(given, name, &length)) == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* A matrix of columns: a datatype with gaps, in place and not. */
static void moves(void) {
    int all[16 * 3], mine[3] = {rank, 10 * rank, 100 * rank};
    MPI_Allgather(mine, 3, MPI_INT, all, 3, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(all[3 * i + 2] == 100 * i);
    MPI_Datatype column, narrow;
    MPI_Type_vector(3, 1, size, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &narrow);
    MPI_Type_commit(&narrow);
    int matrix[3 * 16] = {0};
    MPI_Gather(mine, 3, MPI_INT, matrix, 1, narrow, 0, MPI_COMM_WORLD);
    if (rank == 0)
        for (int i = 0; i < size; i++) CHECK(matrix[i] == i && matrix[2 * size + i] == 100 * i);
    int back[3] = {-1};
    MPI_Scatter(matrix, 1, narrow, back, 3, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(!memcmp(back, mine, sizeof mine));
    MPI_Type_free(&narrow);
    MPI_Type_free(&column);
    int counts[16], at[16], lengths[16], total = 0;
    for (int i = 0; i < size; i++) counts[i] = i + 1, at[i] = total + i, total += i + 1, lengths[i] = 1;
    int block[16], gathered[512];
    memset(gathered, -1, sizeof gathered);
    for (int i = 0; i <= rank; i++) block[i] = rank;
    MPI_Allgatherv(block, rank + 1, MPI_INT, gathered, counts, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(gathered[at[i]] == i && gathered[at[i] + i] == i && gathered[at[i] + i + 1] == -1);
    int sent[16], got[16];
    for (int i = 0; i < size; i++) sent[i] = 100 * rank + i;
    MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(got[i] == 100 * i + rank);
    MPI_Datatype types[16];
    int bytes[16];
    for (int i = 0; i < size; i++) types[i] = MPI_INT, bytes[i] = 4 * i;
    memset(got, 0, sizeof got);
    MPI_Alltoallw(sent, lengths, bytes, types, got, lengths, bytes, types, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(got[i] == 100 * i + rank);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, sent, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(sent[i] == 100 * i + rank);
}

/* Blocks in place with memory between them that can't be read. */
static void in_place_apart(void) {
    size_t page = sysconf(_SC_PAGESIZE), half = page / sizeof(int);
    int *first = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int counts[16], at[16], bytes[16];
    MPI_Datatype types[16];
    mprotect((char *)first + page, page, PROT_NONE);
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < size; i++) {
            counts[i] = 1, at[i] = i % 2 * 2 * half + i, bytes[i] = at[i] * sizeof(int), types[i] = MPI_INT;
            first[at[i]] = 100 * rank + i;
        }
        if (w == 0) MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, first, counts, at, MPI_INT, MPI_COMM_WORLD);
        if (w == 1) MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, first, counts, bytes, types, MPI_COMM_WORLD);
        for (int i = 0; i < size; i++) CHECK(first[at[i]] == 100 * i + rank);
    }
    munmap(first, 3 * page);
}

/* Non-blocking ones under way side by side, persistent ones again and again. */
static void others(void) {
    int a = rank, b = 2 * rank, sums[2], root = rank == 0 ? 42 : 0;
    MPI_Request requests[4];
    MPI_Iallreduce(&a, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Iallreduce_c(&b, &sums[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
    MPI_Ibcast(&root, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK(sums[0] == size * (size - 1) / 2 && sums[1] == 2 * sums[0] && root == 42);
    MPI_Request again;
    MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &again);
    for (int round = 0; round < 3; round++) {
        a = rank + round;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        CHECK(b == size - 1 + round);
    }
    MPI_Request_free(&again);
}

/* Persistent ones are started in another order at each rank; those that belong together were made ready together. */
static void persistent_in_any_order(void) {
    int mine = rank, sum, most;
    MPI_Request requests[2];
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Allreduce_init(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 3; round++) {
        mine = rank + round;
        MPI_Start(&requests[rank % 2]);
        MPI_Start(&requests[1 - rank % 2]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(sum == size * round + size * (size - 1) / 2 && most == size - 1 + round);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Blocking and non-blocking ones in another order at each rank: wrong by the standard, but other implementations take it. */
static void mixed(void) {
    int one = 1, sum = 0;
    MPI_Request request;
    if (rank > 0) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == size);
}

/* An exclusive scan gives rank 0 nothing, so its receive buffer may be anything. */
static void exclusive(void) {
    int one = 1, before = 0;
    MPI_Exscan(&one, rank ? &before : &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(one == 1 && before == rank);
    MPI_Exscan(&one, rank ? &before : NULL, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(before == rank);
    MPI_Exscan(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(one == (rank ? rank : 1));
}

/* One buffer for both is an error that every rank sees, before anything is sent. */
static void aliased(void) {
    int one = 1, all[8] = {0};
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Allreduce(&one, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Iallgather(all, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &request)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Reduce_local(all, all, 8, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Reduce_local(MPI_IN_PLACE, all, 8, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    reductions();
    reductions_before_the_buffer();
    changed_operands();
    many_elements();
    freed_while_reducing();
    moves();
    in_place_apart();
    others();
    persistent_in_any_order();
    mixed();
    exclusive();
    aliased();
    MPI_Finalize();
    return 0;
}
