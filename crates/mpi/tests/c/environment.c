#include "check.h"
#include <pthread.h>
#include <stddef.h>

static void *ask_from_elsewhere(void *flag) {
    MPI_Is_thread_main(flag);
    return NULL;
}

/* What may be asked before MPI_Init and after MPI_Finalize. */
static void at_any_time(int begun, int over) {
    int flag, major, minor, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&flag);
    CHECK(flag == begun);
    MPI_Finalized(&flag);
    CHECK(flag == over);
    MPI_Get_version(&major, &minor);
    CHECK(major == MPI_VERSION && minor == MPI_SUBVERSION);
    MPI_Abi_get_version(&major, &minor);
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
    MPI_Get_library_version(text, &length);
    CHECK(!strncmp(text, "Fishplate", 9) && strlen(text) == (size_t)length);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_nkeys(info, &length);
    CHECK(length == 1);
    MPI_Info_free(&info);
    CHECK(MPI_Pcontrol(1) == MPI_SUCCESS);
}

static int has(MPI_Info info, const char *key, const char *wanted) {
    char value[64];
    int flag, length = sizeof value;
    MPI_Info_get_string(info, key, &length, value, &flag);
    return flag && (!wanted || !strcmp(value, wanted));
}

static void binary_interface(void) {
    MPI_Info info;
    int is_set;
    MPI_Abi_get_info(&info);
    CHECK(has(info, "mpi_aint_size", "8") && has(info, "mpi_count_size", "8") && has(info, "mpi_offset_size", "8"));
    MPI_Info_free(&info);
    MPI_Abi_get_fortran_info(&info);
    CHECK(has(info, "mpi_logical_size", "4") && has(info, "mpi_integer_size", "4") && has(info, "mpi_real_size", "4"));
    CHECK(has(info, "mpi_double_precision_size", "8") && has(info, "mpi_integer8_supported", "true"));
    /* They are known, and can't be set again. */
    CHECK(class_of(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI);
    MPI_Info_free(&info);
    for (int bytes = 1; bytes <= 16; bytes *= 2) {
        unsigned char yes[16], no[16], one[16] = {1}, zero[16] = {0};
        CHECK(MPI_Abi_get_fortran_booleans(bytes, yes, no, &is_set) == MPI_SUCCESS && is_set);
        CHECK(!memcmp(yes, one, bytes) && !memcmp(no, zero, bytes));
        CHECK(class_of(MPI_Abi_set_fortran_booleans(bytes, yes, no)) == MPI_ERR_ABI);
    }
}

static void memory(void) {
    void *small, *large, *none;
    CHECK(MPI_Alloc_mem(100, MPI_INFO_NULL, &small) == MPI_SUCCESS);
    CHECK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &large) == MPI_SUCCESS);
    CHECK((size_t)small % _Alignof(max_align_t) == 0 && (size_t)large % _Alignof(max_align_t) == 0 && small != large);
    memset(large, 1, 1 << 20);
    memset(small, 2, 100);
    CHECK(((char *)large)[(1 << 20) - 1] == 1);
    CHECK(MPI_Alloc_mem(0, MPI_INFO_NULL, &none) == MPI_SUCCESS && MPI_Free_mem(none) == MPI_SUCCESS);
    CHECK(MPI_Free_mem(small) == MPI_SUCCESS && MPI_Free_mem(large) == MPI_SUCCESS);
    CHECK(class_of(MPI_Free_mem(large)) == MPI_ERR_BASE);
    CHECK(class_of(MPI_Alloc_mem(-1, MPI_INFO_NULL, &none)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Alloc_mem((MPI_Aint)1 << 62, MPI_INFO_NULL, &none)) == MPI_ERR_NO_MEM);
}

static void place_and_time(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length, flag, provided;
    MPI_Info info;
    double before = MPI_Wtime();
    MPI_Get_processor_name(name, &length);
    CHECK(length > 0 && strlen(name) == (size_t)length);
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1 && MPI_Wtime() >= before);
    MPI_Get_hw_resource_info(&info);
    MPI_Info_get_nkeys(info, &length);
    CHECK(length > 0);
    MPI_Info_free(&info);
    MPI_Query_thread(&provided);
    CHECK(provided == MPI_THREAD_SERIALIZED);
    MPI_Is_thread_main(&flag);
    CHECK(flag);
    pthread_t other;
    pthread_create(&other, NULL, ask_from_elsewhere, &flag);
    pthread_join(other, NULL);
    CHECK(!flag);
    CHECK(class_of(MPI_Init(NULL, NULL)) == MPI_ERR_OTHER);
}

/* Classes and codes of the program's, which go in the order that nothing hangs in the air. */
static void errors(void) {
    int class, code, other, *last, flag, length;
    char text[MPI_MAX_ERROR_STRING];
    for (int known = 0; known <= MPI_ERR_ABI; known++) {
        CHECK(MPI_Error_class(known, &class) == MPI_SUCCESS && class == known);
        CHECK(MPI_Error_string(known, text, &length) == MPI_SUCCESS && length > 0 && strlen(text) == (size_t)length);
    }
    for (int known = MPI_T_ERR_CANNOT_INIT; known <= MPI_T_ERR_PVAR_NO_ATOMIC; known++) {
        CHECK(MPI_Error_class(known, &class) == MPI_SUCCESS && class == known);
        CHECK(MPI_Error_string(known, text, &length) == MPI_SUCCESS && length > 0);
    }
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_code(MPI_ERR_IO, &other);
    CHECK(class > MPI_ERR_LASTCODE && code > class && other > code);
    MPI_Error_class(code, &flag);
    CHECK(flag == class);
    MPI_Error_class(other, &flag);
    CHECK(flag == MPI_ERR_IO);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last == other);
    MPI_Error_string(code, text, &length);
    CHECK(length == 0 && text[0] == 0);
    MPI_Add_error_string(class, "class");
    MPI_Add_error_string(code, "code");
    MPI_Add_error_string(code, "another");
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "another") && length == 7);
    CHECK(class_of(MPI_Add_error_string(MPI_ERR_ARG, "mine")) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Add_error_code(-5, &flag)) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    CHECK(length == 0);
    CHECK(MPI_Remove_error_string(class) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(code) != MPI_SUCCESS && MPI_Remove_error_code(class) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
    CHECK(class_of(MPI_Error_class(code, &flag)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Error_string(class, text, &length)) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_code(other) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(MPI_ERR_ARG) != MPI_SUCCESS && MPI_Remove_error_class(MPI_ERR_ARG) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_string(MPI_ERR_ARG) != MPI_SUCCESS);
}

static int deleted_at;
static int delete_while_all_works(MPI_Comm comm, int key, void *value, void *extra) {
    int flag;
    (void)key, (void)value, (void)extra;
    MPI_Finalized(&flag);
    CHECK(comm == MPI_COMM_SELF && !flag);
    MPI_Barrier(MPI_COMM_WORLD);
    deleted_at++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int provided, key;
    at_any_time(0, 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    CHECK(provided == MPI_THREAD_SERIALIZED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    at_any_time(1, 0);
    binary_interface();
    memory();
    place_and_time();
    errors();
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_while_all_works, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Finalize();
    CHECK(deleted_at == 1);
    at_any_time(1, 1);
    return 0;
}
