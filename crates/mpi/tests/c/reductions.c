#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/* The standard's operations on the datatypes that it defines them for (MPI 5.0, 6.9.2), and on no others. */

/* Whether two elements at each of two places give these, by themselves and among all ranks: rank 0 has the first, all others the
   second, of which one more changes nothing if there is one (`again`: from the result and the second). */
#define GIVES(T, type, op, first, second, result, again)                                    \
    do {                                                                                    \
        T left[2] = {first, second}, right[2] = {second, first}, all[2];                    \
        T mine[2] = {rank ? second : first, rank ? second : first};                         \
        CHECK(MPI_Reduce_local(left, right, 2, type, op) == MPI_SUCCESS);                   \
        CHECK(right[0] == (T)(result) && right[1] == (T)(result) && left[0] == (T)(first)); \
        CHECK(MPI_Allreduce(mine, all, 2, type, op, MPI_COMM_WORLD) == MPI_SUCCESS);        \
        T expected = first;                                                                 \
        for (int i = 1; i < size; i++) {                                                    \
            T before = expected, other = second;                                            \
            (void)before, (void)other;                                                      \
            expected = again;                                                               \
        }                                                                                   \
        CHECK(all[0] == expected && all[1] == expected);                                    \
    } while (0)

#define UNDEFINED(type, op)                                                          \
    do {                                                                             \
        char left[64] = {0}, right[64] = {0};                                        \
        CHECK(class_of(MPI_Reduce_local(left, right, 1, type, op)) == MPI_ERR_OP);   \
    } while (0)

#define SUM_AND_PRODUCT(T, type)                                \
    GIVES(T, type, MPI_SUM, 5, 3, 8, before + other);           \
    GIVES(T, type, MPI_PROD, 5, 2, 10, before * other)

#define ARITHMETIC(T, type)                                                       \
    SUM_AND_PRODUCT(T, type);                                                     \
    GIVES(T, type, MPI_MIN, 5, 3, 3, before < other ? before : other);            \
    GIVES(T, type, MPI_MAX, 5, 3, 5, before > other ? before : other)

#define BITS(T, type)                                            \
    GIVES(T, type, MPI_BAND, 5, 3, 1, before & other);           \
    GIVES(T, type, MPI_BOR, 5, 3, 7, before | other);            \
    GIVES(T, type, MPI_BXOR, 5, 3, 6, before ^ other)

#define LOGICAL(T, type)                                            \
    GIVES(T, type, MPI_LAND, 1, 0, 0, before && other);             \
    GIVES(T, type, MPI_LOR, 1, 0, 1, before || other);              \
    GIVES(T, type, MPI_LXOR, 1, 1, 0, !before != !other)

#define INTEGER(T, type) \
    ARITHMETIC(T, type); \
    BITS(T, type);       \
    UNDEFINED(type, MPI_MINLOC)

/* C's integers are truth values, too, whatever they are besides 0. */
#define C_INTEGER(T, type)                             \
    INTEGER(T, type);                                  \
    LOGICAL(T, type);                                  \
    GIVES(T, type, MPI_LAND, 4, 2, 1, before && other)

#define SIGNED_INTEGER(T, type)                                                     \
    GIVES(T, type, MPI_MIN, -5, 3, -5, before < other ? before : other);            \
    GIVES(T, type, MPI_MAX, -5, 3, 3, before > other ? before : other)

#define FLOATING(T, type)                                                           \
    ARITHMETIC(T, type);                                                            \
    GIVES(T, type, MPI_MAX, -0.5, 0.25, 0.25, before > other ? before : other);     \
    UNDEFINED(type, MPI_BAND);                                                      \
    UNDEFINED(type, MPI_LAND);                                                      \
    UNDEFINED(type, MPI_MAXLOC)

#define COMPLEX(T, type)                                                            \
    SUM_AND_PRODUCT(T, type);                                                       \
    GIVES(T, type, MPI_PROD, 1 + 2 * I, I, -2 + I, before * other);                 \
    UNDEFINED(type, MPI_MAX);                                                       \
    UNDEFINED(type, MPI_LOR)

static void numbers(void) {
    C_INTEGER(signed char, MPI_SIGNED_CHAR);
    C_INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    C_INTEGER(short, MPI_SHORT);
    C_INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    C_INTEGER(int, MPI_INT);
    C_INTEGER(unsigned, MPI_UNSIGNED);
    C_INTEGER(long, MPI_LONG);
    C_INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    C_INTEGER(long long, MPI_LONG_LONG);
    C_INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    C_INTEGER(int8_t, MPI_INT8_T);
    C_INTEGER(uint8_t, MPI_UINT8_T);
    C_INTEGER(int16_t, MPI_INT16_T);
    C_INTEGER(uint16_t, MPI_UINT16_T);
    C_INTEGER(int32_t, MPI_INT32_T);
    C_INTEGER(uint32_t, MPI_UINT32_T);
    C_INTEGER(int64_t, MPI_INT64_T);
    C_INTEGER(uint64_t, MPI_UINT64_T);
    SIGNED_INTEGER(signed char, MPI_SIGNED_CHAR);
    SIGNED_INTEGER(short, MPI_SHORT);
    SIGNED_INTEGER(int, MPI_INT);
    SIGNED_INTEGER(long, MPI_LONG);
    GIVES(uint8_t, MPI_UINT8_T, MPI_MAX, 200, 3, 200, before > other ? before : other);
    GIVES(uint64_t, MPI_UINT64_T, MPI_MAX, ~0ull, 3, ~0ull, before > other ? before : other);
    INTEGER(int, MPI_INTEGER);
    INTEGER(int8_t, MPI_INTEGER1);
    INTEGER(int16_t, MPI_INTEGER2);
    INTEGER(int32_t, MPI_INTEGER4);
    INTEGER(int64_t, MPI_INTEGER8);
    INTEGER(MPI_Aint, MPI_AINT);
    INTEGER(MPI_Offset, MPI_OFFSET);
    INTEGER(MPI_Count, MPI_COUNT);
    FLOATING(float, MPI_FLOAT);
    FLOATING(double, MPI_DOUBLE);
    FLOATING(long double, MPI_LONG_DOUBLE);
    FLOATING(float, MPI_REAL);
    FLOATING(double, MPI_DOUBLE_PRECISION);
    FLOATING(float, MPI_REAL4);
    FLOATING(double, MPI_REAL8);
    COMPLEX(float complex, MPI_C_COMPLEX);
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    COMPLEX(float complex, MPI_CXX_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_CXX_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_CXX_LONG_DOUBLE_COMPLEX);
    COMPLEX(float complex, MPI_COMPLEX);
    COMPLEX(double complex, MPI_DOUBLE_COMPLEX);
    COMPLEX(float complex, MPI_COMPLEX8);
    COMPLEX(double complex, MPI_COMPLEX16);
    BITS(unsigned char, MPI_BYTE);
    UNDEFINED(MPI_BYTE, MPI_SUM);
    UNDEFINED(MPI_BYTE, MPI_LAND);
}

static void truths(void) {
    LOGICAL(bool, MPI_C_BOOL);
    LOGICAL(bool, MPI_CXX_BOOL);
    LOGICAL(int, MPI_LOGICAL);
    LOGICAL(int8_t, MPI_LOGICAL1);
    LOGICAL(int16_t, MPI_LOGICAL2);
    LOGICAL(int32_t, MPI_LOGICAL4);
    LOGICAL(int64_t, MPI_LOGICAL8);
    UNDEFINED(MPI_C_BOOL, MPI_SUM);
    UNDEFINED(MPI_LOGICAL, MPI_BAND);
    UNDEFINED(MPI_LOGICAL4, MPI_MAX);
}

/* Values with an index: the least or greatest value, and of equal ones the least index. */
#define PAIR(V, J, type)                                                                                  \
    do {                                                                                                  \
        struct { V value; J index; } mine[2] = {{rank % 2, rank}, {7, size - rank}}, got[2];              \
        CHECK(MPI_Allreduce(mine, got, 2, type, MPI_MINLOC, MPI_COMM_WORLD) == MPI_SUCCESS);              \
        CHECK(got[0].value == 0 && got[0].index == 0 && got[1].value == 7 && got[1].index == 1);          \
        CHECK(MPI_Allreduce(mine, got, 2, type, MPI_MAXLOC, MPI_COMM_WORLD) == MPI_SUCCESS);              \
        CHECK(got[0].value == (size > 1) && got[0].index == (size > 1) && got[1].index == 1);             \
        for (int i = 0; i < 2; i++) mine[i].value = -rank;                                                \
        MPI_Allreduce(mine, got, 2, type, MPI_MINLOC, MPI_COMM_WORLD);                                    \
        CHECK(got[0].value == 1 - size && got[0].index == size - 1);                                      \
        UNDEFINED(type, MPI_SUM);                                                                         \
        UNDEFINED(type, MPI_MAX);                                                                         \
    } while (0)

static void pairs(void) {
    PAIR(float, int, MPI_FLOAT_INT);
    PAIR(double, int, MPI_DOUBLE_INT);
    PAIR(long, int, MPI_LONG_INT);
    PAIR(int, int, MPI_2INT);
    PAIR(short, int, MPI_SHORT_INT);
    PAIR(long double, int, MPI_LONG_DOUBLE_INT);
    PAIR(float, float, MPI_2REAL);
    PAIR(double, double, MPI_2DOUBLE_PRECISION);
    PAIR(int, int, MPI_2INTEGER);
}

/* Fortran's reals of 16 and 128 bits are carried, but not reduced: docs/decisions/0017. */
static void not_reduced(void) {
    MPI_Datatype types[] = {MPI_REAL2, MPI_REAL16, MPI_COMPLEX4, MPI_COMPLEX32};
    for (int i = 0; i < 4; i++) UNDEFINED(types[i], MPI_SUM);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    numbers();
    truths();
    pairs();
    not_reduced();
    MPI_Finalize();
    return 0;
}
