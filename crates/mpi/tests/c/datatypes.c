#include "check.h"
#include <stddef.h>

struct record {
    char tag;
    double value;
    short list[3];
};

static MPI_Datatype record_type(void) {
    int lengths[] = {1, 1, 3};
    MPI_Aint at[] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, list)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, made;
    MPI_Type_create_struct(3, lengths, at, types, &made);
    MPI_Type_commit(&made);
    return made;
}

/* Sizes, extents, elements, and what a type says of itself. */
static void shapes(void) {
    MPI_Datatype made = record_type(), vector, resized, part;
    MPI_Aint lower, extent;
    int bytes, integers, addresses, types, combiner;
    MPI_Type_size(made, &bytes);
    MPI_Type_get_extent(made, &lower, &extent);
    CHECK(bytes == 15 && lower == 0 && extent == sizeof(struct record));
    MPI_Type_get_envelope(made, &integers, &addresses, &types, &combiner);
    CHECK(integers == 4 && addresses == 3 && types == 3 && combiner == MPI_COMBINER_STRUCT);
    MPI_Type_vector(3, 2, 4, MPI_INT, &vector);
    MPI_Type_get_extent(vector, &lower, &extent);
    CHECK(extent == 40);
    MPI_Type_create_resized(vector, -4, 100, &resized);
    MPI_Type_get_extent(resized, &lower, &extent);
    CHECK(lower == -4 && extent == 100);
    MPI_Type_get_true_extent(resized, &lower, &extent);
    CHECK(lower == 0 && extent == 40);
    int sizes[] = {4, 6}, subsizes[] = {2, 3}, starts[] = {1, 2}, told[8];
    MPI_Aint no_addresses[1];
    MPI_Datatype base;
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_get_contents(part, 8, 0, 1, told, no_addresses, &base);
    CHECK(told[0] == 2 && told[2] == 6 && told[4] == 3 && told[6] == 2 && told[7] == MPI_ORDER_C && base == MPI_INT);
    int matrix[4][6], packed[6], position = 0;
    for (int i = 0; i < 24; i++) matrix[i / 6][i % 6] = i;
    MPI_Pack(matrix, 1, part, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CHECK(position == 24 && packed[0] == 8 && packed[2] == 10 && packed[5] == 16);
    MPI_Type_free(&part);
    MPI_Type_free(&resized);
    MPI_Type_free(&vector);
    MPI_Type_free(&made);
    CHECK(made == MPI_DATATYPE_NULL);
}

/* Parts of a block-cyclic matrix: all of them together are the matrix. */
static void distributed(void) {
    int sizes[] = {7, 9}, grid[] = {2, 3}, total = 0;
    int how[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, argument[] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    char seen[63] = {0};
    for (int of = 0; of < 6; of++) {
        MPI_Datatype part;
        int bytes;
        MPI_Type_create_darray(6, of, 2, sizes, how, argument, grid, MPI_ORDER_C, MPI_CHAR, &part);
        MPI_Type_size(part, &bytes);
        total += bytes;
        char ones[63], in[63] = {0};
        memset(ones, 1, sizeof ones);
        int position = 0;
        MPI_Unpack(ones, sizeof ones, &position, in, 1, part, MPI_COMM_WORLD);
        for (int i = 0; i < 63; i++) seen[i] += in[i];
        MPI_Type_free(&part);
    }
    CHECK(total == 63);
    for (int i = 0; i < 63; i++) CHECK(seen[i] == 1);
}

/* Messages with gaps, longer than eager ones, in both directions; a partly filled receive. */
static void messages(void) {
    enum { COUNT = 5000 };
    MPI_Datatype type = record_type();
    struct record *sent = calloc(COUNT, sizeof *sent), *got = calloc(COUNT, sizeof *got);
    for (int i = 0; i < COUNT; i++) sent[i] = (struct record){'a' + rank, i + rank, {i % 100, 2, 3}};
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, count;
    MPI_Status status;
    MPI_Sendrecv(sent, COUNT - 1, type, next, 0, got, COUNT, type, previous, 0, MPI_COMM_WORLD, &status);
    for (int i = 0; i < COUNT - 1; i++)
        CHECK(got[i].tag == 'a' + previous && got[i].value == i + previous && got[i].list[0] == i % 100);
    CHECK(got[COUNT - 1].tag == 0);
    MPI_Get_count(&status, type, &count);
    CHECK(count == COUNT - 1);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 5 * (COUNT - 1));
    free(sent);
    free(got);
    MPI_Type_free(&type);
}

/* external32 is big-endian, and comes back. */
static void external(void) {
    int number = 0x01020304, back = 0;
    long wide = -5, wide_back = 0;
    long double real = 1.5L, real_back = 0;
    unsigned char bytes[64];
    MPI_Aint at = 0;
    MPI_Pack_external("external32", &number, 1, MPI_INT, bytes, sizeof bytes, &at);
    CHECK(at == 4 && bytes[0] == 1 && bytes[3] == 4);
    MPI_Pack_external("external32", &wide, 1, MPI_LONG, bytes, sizeof bytes, &at);
    MPI_Pack_external("external32", &real, 1, MPI_LONG_DOUBLE, bytes, sizeof bytes, &at);
    CHECK(at == 24);
    at = 0;
    MPI_Unpack_external("external32", bytes, sizeof bytes, &at, &back, 1, MPI_INT);
    MPI_Unpack_external("external32", bytes, sizeof bytes, &at, &wide_back, 1, MPI_LONG);
    MPI_Unpack_external("external32", bytes, sizeof bytes, &at, &real_back, 1, MPI_LONG_DOUBLE);
    CHECK(back == number && wide_back == wide && real_back == real);
}

/* Elements are basic ones, whatever the datatype has of them. */
static void elements_of_statuses(void) {
    MPI_Datatype three;
    MPI_Status status = {0};
    int count;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    for (int elements = 0; elements < 8; elements++) {
        MPI_Status_set_elements(&status, three, elements);
        MPI_Get_elements(&status, three, &count);
        CHECK(count == elements);
        MPI_Get_count(&status, three, &count);
        CHECK(count == (elements % 3 ? MPI_UNDEFINED : elements / 3));
    }
    MPI_Type_free(&three);
    MPI_Request request;
    MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    shapes();
    distributed();
    messages();
    external();
    elements_of_statuses();
    MPI_Finalize();
    return 0;
}
