#include "check.h"
#include <stddef.h>

enum { MOST = 32 };

/* An int and a double, as a C compiler puts them, are what every datatype here is made of. */
struct item {
    int number;
    double value;
};

/* Where the first bytes of the basic elements are, in the order in which they are packed. */
static int offsets(MPI_Datatype type, int *to) {
    static unsigned char memory[4096], packed[4096];
    int bytes, count = 0, position = 0;
    MPI_Type_size(type, &bytes);
    /* Each byte of memory says where it is, low and then high. */
    for (int high = 0; high < 2; high++) {
        for (int i = 0; i < (int)sizeof memory; i++) memory[i] = high ? i >> 8 : i;
        MPI_Aint lower, extent;
        MPI_Type_get_true_extent(type, &lower, &extent);
        position = 0;
        MPI_Pack(memory + 1024, 1, type, packed, sizeof packed, &position, MPI_COMM_SELF);
        CHECK(position == bytes && lower >= -1024 && lower + extent <= 2048);
        count = 0;
        for (int i = 0; i < bytes; i += sizeof(int), count++) {
            if (high) to[count] += (packed[i] << 8) - 1024;
            else to[count] = packed[i];
        }
    }
    return count;
}

static int lies(MPI_Datatype type, int count, const int *expected) {
    int found[MOST];
    return offsets(type, found) == count && !memcmp(found, expected, count * sizeof *expected);
}

#define LIES(type, ...) lies(type, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static int has_bounds(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent, MPI_Aint true_lower, MPI_Aint true_extent) {
    MPI_Aint a, b;
    MPI_Count c, d;
    int right = 1;
    MPI_Type_get_extent(type, &a, &b);
    right &= a == lower && b == extent;
    MPI_Type_get_extent_c(type, &c, &d);
    right &= c == lower && d == extent;
    MPI_Type_get_extent_x(type, &c, &d);
    right &= c == lower && d == extent;
    MPI_Type_get_true_extent(type, &a, &b);
    right &= a == true_lower && b == true_extent;
    MPI_Type_get_true_extent_c(type, &c, &d);
    right &= c == true_lower && d == true_extent;
    MPI_Type_get_true_extent_x(type, &c, &d);
    return right && c == true_lower && d == true_extent;
}

/* What a datatype tells of how it was made: integers, addresses and large counts, one after the other. It is freed. */
static int is_made(MPI_Datatype *type, int combiner, int large, int count, const long *values, int types_count,
                   const MPI_Datatype *of_types) {
    int told_combiner, integers, addresses, types, list[MOST], at = 0;
    MPI_Count c_integers, c_addresses, c_counts, c_types, counts[MOST];
    MPI_Aint places[MOST];
    MPI_Datatype inner[MOST];
    long all[3 * MOST];
    MPI_Type_get_envelope_c(*type, &c_integers, &c_addresses, &c_counts, &c_types, &told_combiner);
    CHECK(told_combiner == combiner && (c_counts > 0) == large && (!large || c_addresses == 0));
    CHECK(MPI_Type_get_contents_c(*type, c_integers, c_addresses, c_counts, c_types, list, places, counts, inner) == MPI_SUCCESS);
    if (large) {
        CHECK(class_of(MPI_Type_get_envelope(*type, &integers, &addresses, &types, &told_combiner)) == MPI_ERR_TYPE);
        CHECK(class_of(MPI_Type_get_contents(*type, MOST, MOST, MOST, list, places, inner)) == MPI_ERR_TYPE);
        CHECK(class_of(MPI_Type_get_contents_c(
                  *type, MOST, MOST, c_counts - 1, MOST, list, places, counts, inner)) == MPI_ERR_ARG);
    } else {
        MPI_Type_get_envelope(*type, &integers, &addresses, &types, &told_combiner);
        CHECK(told_combiner == combiner && integers == c_integers && addresses == c_addresses && types == c_types);
        CHECK(MPI_Type_get_contents(*type, integers, addresses, types, list, places, inner) == MPI_SUCCESS);
        if (integers > 0)
            CHECK(class_of(MPI_Type_get_contents(*type, integers - 1, MOST, MOST, list, places, inner)) == MPI_ERR_ARG);
    }
    for (int i = 0; i < c_integers; i++) all[at++] = list[i];
    for (int i = 0; i < c_addresses; i++) all[at++] = places[i];
    for (int i = 0; i < c_counts; i++) all[at++] = counts[i];
    int right = at == count && !memcmp(all, values, count * sizeof *all) && c_types == types_count;
    for (int i = 0; i < c_types; i++) right &= inner[i] == of_types[i];
    MPI_Type_free(type);
    return right && *type == MPI_DATATYPE_NULL;
}

#define TYPES(...) (int)(sizeof((MPI_Datatype[]){__VA_ARGS__}) / sizeof(MPI_Datatype)), (MPI_Datatype[]){__VA_ARGS__}
#define MADE(type, combiner, types, ...)                                                                              \
    is_made(&type, combiner, LARGE, sizeof((long[]){__VA_ARGS__}) / sizeof(long), (long[]){__VA_ARGS__}, types)

/* What is packed. */
struct mixed {
    short a;
    long b;
    double c;
    char d;
    unsigned short e;
};

static int is_same(const struct mixed *x, const struct mixed *y) {
    return x->a == y->a && x->b == y->b && x->c == y->c && x->d == y->d && x->e == y->e;
}

#define LARGE (sizeof(COUNT) > sizeof(int))
#define BODY "constructors.h"
#include "forms.h"
#undef LARGE

/* Sizes and extents that nothing can tell are errors. */
static void beyond(void) {
    MPI_Count most = (MPI_Count)1 << 62, size;
    MPI_Datatype type;
    CHECK(class_of(MPI_Type_contiguous_c(most, MPI_INT, &type)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Type_vector_c(most, 1, most, MPI_INT, &type)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Type_create_hvector_c(3, 1, -most, MPI_INT, &type)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Type_create_hindexed_c(1, &most, &most, MPI_CHAR, &type)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Type_create_resized_c(MPI_INT, most, most, &type)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Pack_size_c(most, MPI_INT, MPI_COMM_SELF, &size)) == MPI_ERR_VALUE_TOO_LARGE);
    CHECK(class_of(MPI_Pack_external_size_c("external32", most, MPI_INT, &size)) == MPI_ERR_VALUE_TOO_LARGE);
    /* The longest there are, of which nobody counts the elements one by one. */
    MPI_Datatype pairs;
    MPI_Status status = {0};
    MPI_Type_contiguous_c(most / 8, MPI_SHORT_INT, &pairs);
    MPI_Type_size_c(pairs, &size);
    CHECK(size == most / 8 * 6);
    MPI_Pack_external_size_c("external32", 1, pairs, &size);
    CHECK(size == most / 8 * 6);
    MPI_Status_set_elements_c(&status, pairs, most / 8 - 1);
    MPI_Get_elements_c(&status, pairs, &size);
    CHECK(size == most / 8 - 1);
    MPI_Get_count_c(&status, MPI_BYTE, &size);
    CHECK(size == most / 16 * 6 - 4);
    MPI_Type_free(&pairs);
}

/* A datatype that was made of another one. */
static void duplicates(void) {
    MPI_Datatype vector, copy, inner, again;
    int integers, addresses, types, combiner, list[3];
    MPI_Aint places[1];
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    MPI_Type_dup(vector, &copy);
    CHECK(LIES(copy, 0, 8) && has_bounds(copy, 0, 12, 0, 12));
    MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_DUP && integers == 0 && addresses == 0 && types == 1);
    /* What a derived one was made of is a new handle, which outlives it. */
    MPI_Type_get_contents(copy, 0, 0, 1, list, places, &inner);
    MPI_Type_free(&copy);
    MPI_Type_free(&vector);
    CHECK(LIES(inner, 0, 8));
    MPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_VECTOR && integers == 3);
    MPI_Type_get_contents(inner, 3, 0, 1, list, places, &again);
    CHECK(list[0] == 2 && list[1] == 1 && list[2] == 2 && again == MPI_INT);
    MPI_Type_free(&inner);
    /* A named one has no contents. */
    MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner);
    CHECK(combiner == MPI_COMBINER_NAMED && !integers && !addresses && !types);
    CHECK(class_of(MPI_Type_get_contents(MPI_INT, 3, 0, 1, list, places, &again)) == MPI_ERR_TYPE);
    again = MPI_INT;
    CHECK(class_of(MPI_Type_free(&again)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Type_dup(MPI_DATATYPE_NULL, &again)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Type_get_envelope(MPI_DATATYPE_NULL, &integers, &addresses, &types, &combiner)) == MPI_ERR_TYPE);
}

/* Fortran's types by what they can hold and by their size, and pairs. */
static void found_by_property(void) {
    struct { int class, size; MPI_Datatype type; } sizes[] = {
        {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},  {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
        {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},  {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
        {MPI_TYPECLASS_REAL, 4, MPI_REAL4},        {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
        {MPI_TYPECLASS_REAL, 16, MPI_REAL16},      {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
        {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16}, {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
    };
    MPI_Datatype type, again;
    int bytes, integers, addresses, types, combiner, list[2];
    MPI_Aint places[1];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        MPI_Type_match_size(sizes[i].class, sizes[i].size, &type);
        MPI_Type_size(type, &bytes);
        CHECK(type == sizes[i].type && bytes == sizes[i].size);
    }
    CHECK(class_of(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_match_size(-1, 4, &type)) == MPI_ERR_ARG);
    struct { int combiner, precision, range, size; } numbers[] = {
        {MPI_COMBINER_F90_REAL, 6, 37, 4}, {MPI_COMBINER_F90_REAL, 7, MPI_UNDEFINED, 8},
        {MPI_COMBINER_F90_REAL, MPI_UNDEFINED, 307, 8},
        {MPI_COMBINER_F90_COMPLEX, 6, 37, 8}, {MPI_COMBINER_F90_COMPLEX, 15, MPI_UNDEFINED, 16},
        {MPI_COMBINER_F90_INTEGER, 0, 2, 1}, {MPI_COMBINER_F90_INTEGER, 0, 5, 4}, {MPI_COMBINER_F90_INTEGER, 0, 18, 8},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int turn = 0; turn < 2; turn++) {
            MPI_Datatype *to = turn ? &again : &type;
            int precision = numbers[i].precision, range = numbers[i].range;
            int is_integer = numbers[i].combiner == MPI_COMBINER_F90_INTEGER;
            if (is_integer) MPI_Type_create_f90_integer(range, to);
            else if (numbers[i].combiner == MPI_COMBINER_F90_REAL) MPI_Type_create_f90_real(precision, range, to);
            else MPI_Type_create_f90_complex(precision, range, to);
            MPI_Type_size(*to, &bytes);
            MPI_Type_get_envelope(*to, &integers, &addresses, &types, &combiner);
            CHECK(bytes == numbers[i].size && combiner == numbers[i].combiner);
            CHECK(!addresses && !types && integers == 2 - is_integer);
            MPI_Type_get_contents(*to, integers, 0, 0, list, places, NULL);
            CHECK(list[integers - 1] == range && (is_integer || list[0] == precision));
            /* The same one each time, and it is not freed. */
            CHECK(!turn || type == again);
            again = *to;
            CHECK(class_of(MPI_Type_free(&again)) == MPI_ERR_TYPE);
        }
    CHECK(class_of(MPI_Type_create_f90_real(99, 5, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_create_f90_complex(MPI_UNDEFINED, MPI_UNDEFINED, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_create_f90_integer(99, &type)) == MPI_ERR_ARG);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    CHECK(type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_INT, MPI_INT, &type);
    CHECK(type == MPI_2INT);
    CHECK(class_of(MPI_Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &type)) == MPI_ERR_TYPE);
    MPI_Type_get_value_index(MPI_BYTE, MPI_BYTE, &type);
    CHECK(type == MPI_DATATYPE_NULL);
}

static void addresses(void) {
    struct item items[3] = {{0, 0}};
    MPI_Aint first, last;
    MPI_Get_address(&items[0], &first);
    MPI_Get_address(&items[2].value, &last);
    CHECK(MPI_Aint_diff(last, first) == 2 * sizeof *items + offsetof(struct item, value));
    CHECK(MPI_Aint_add(first, MPI_Aint_diff(last, first)) == last && (void *)first == items);
    MPI_Get_address(MPI_BOTTOM, &first);
    CHECK(first == 0);
    /* A datatype of addresses, with which MPI_BOTTOM is the buffer. */
    MPI_Datatype absolute;
    int lengths[2] = {1, 1}, number = 0;
    MPI_Aint at[2];
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    struct item there = {5, 2.5}, back = {0, 0};
    MPI_Get_address(&there.number, &at[0]);
    MPI_Get_address(&there.value, &at[1]);
    MPI_Type_create_struct(2, lengths, at, types, &absolute);
    MPI_Type_commit(&absolute);
    char packed[sizeof there];
    MPI_Pack(MPI_BOTTOM, 1, absolute, packed, sizeof packed, &number, MPI_COMM_SELF);
    CHECK(number == sizeof(int) + sizeof(double));
    memcpy(&back.number, packed, sizeof(int));
    memcpy(&back.value, packed + sizeof(int), sizeof(double));
    CHECK(back.number == 5 && back.value == 2.5);
    MPI_Type_free(&absolute);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    constructors();
    constructors_c();
    arrays();
    arrays_c();
    wrong();
    wrong_c();
    sizes();
    sizes_c();
    packing();
    packing_c();
    beyond();
    duplicates();
    found_by_property();
    addresses();
    MPI_Finalize();
    return 0;
}
