#include "check.h"

/* The tool interface, of a library that has no variables, events, sources or categories: every index and handle is wrong. */

/* Each function with arguments that would do, and the class of the error when the interface is there. */
static int index_of, count, length = 8, verbosity, kind, binding, scope, is_readonly, is_continuous, is_atomic;
static char name[8] = "name", description[8] = "what";
static MPI_Datatype type;
static MPI_T_enum items;
static MPI_Info info;
static MPI_Aint at[1];
static MPI_Count stamp, ticks;
static MPI_T_source_order order;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle performance;
static MPI_T_cvar_handle control;
static MPI_T_event_registration registration;
static MPI_T_event_instance instance;

static void happened(MPI_T_event_instance event, MPI_T_event_registration of, MPI_T_cb_safety safety, void *data) {
    (void)event, (void)of, (void)safety, (void)data;
}
static void freed(MPI_T_event_registration of, MPI_T_cb_safety safety, void *data) { (void)of, (void)safety, (void)data; }
static void dropped(MPI_Count many, MPI_T_event_registration of, int source, MPI_T_cb_safety safety, void *data) {
    (void)many, (void)of, (void)source, (void)safety, (void)data;
}

#define EVERY_WRONG(IS) \
    IS(NAME, MPI_T_cvar_get_index(name, &index_of)) \
    IS(NAME, MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index_of)) \
    IS(NAME, MPI_T_category_get_index(name, &index_of)) \
    IS(NAME, MPI_T_event_get_index(name, &index_of)) \
    IS(INDEX, MPI_T_cvar_get_info(0, name, &length, &verbosity, &type, &items, description, &length, &binding, &scope)) \
    IS(INDEX, MPI_T_pvar_get_info(0, name, &length, &verbosity, &kind, &type, &items, description, &length, &binding, \
                                  &is_readonly, &is_continuous, &is_atomic)) \
    IS(INDEX, MPI_T_event_get_info(0, name, &length, &verbosity, &type, at, &count, &items, &info, \
                                   description, &length, &binding)) \
    IS(INDEX, MPI_T_category_get_info(0, name, &length, description, &length, &count, &count, &count)) \
    IS(INDEX, MPI_T_category_get_num_events(0, &count)) \
    IS(INDEX, MPI_T_category_get_cvars(0, 1, &index_of)) \
    IS(INDEX, MPI_T_category_get_pvars(0, 1, &index_of)) \
    IS(INDEX, MPI_T_category_get_events(0, 1, &index_of)) \
    IS(INDEX, MPI_T_category_get_categories(0, 1, &index_of)) \
    IS(INDEX, MPI_T_source_get_info(0, name, &length, description, &length, &order, &ticks, &ticks, &info)) \
    IS(INDEX, MPI_T_source_get_timestamp(0, &stamp)) \
    IS(INDEX, MPI_T_cvar_handle_alloc(0, NULL, &control, &count)) \
    IS(INDEX, MPI_T_pvar_handle_alloc(session, 0, NULL, &performance, &count)) \
    IS(INDEX, MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration)) \
    IS(HANDLE, MPI_T_cvar_handle_free(&control)) \
    IS(HANDLE, MPI_T_cvar_read(control, &count)) \
    IS(HANDLE, MPI_T_cvar_write(control, &count)) \
    IS(HANDLE, MPI_T_pvar_handle_free(session, &performance)) \
    IS(HANDLE, MPI_T_pvar_start(session, performance)) \
    IS(HANDLE, MPI_T_pvar_stop(session, performance)) \
    IS(HANDLE, MPI_T_pvar_read(session, performance, &count)) \
    IS(HANDLE, MPI_T_pvar_readreset(session, performance, &count)) \
    IS(HANDLE, MPI_T_pvar_reset(session, performance)) \
    IS(HANDLE, MPI_T_pvar_write(session, performance, &count)) \
    IS(HANDLE, MPI_T_enum_get_info(items, &count, name, &length)) \
    IS(HANDLE, MPI_T_enum_get_item(items, 0, &count, name, &length)) \
    IS(HANDLE, MPI_T_event_handle_free(registration, NULL, freed)) \
    IS(HANDLE, MPI_T_event_handle_get_info(registration, &info)) \
    IS(HANDLE, MPI_T_event_handle_set_info(registration, MPI_INFO_NULL)) \
    IS(HANDLE, MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, happened)) \
    IS(HANDLE, MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info)) \
    IS(HANDLE, MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL)) \
    IS(HANDLE, MPI_T_event_set_dropped_handler(registration, dropped)) \
    IS(HANDLE, MPI_T_event_read(instance, 0, &count)) \
    IS(HANDLE, MPI_T_event_copy(instance, &count)) \
    IS(HANDLE, MPI_T_event_get_timestamp(instance, &stamp)) \
    IS(HANDLE, MPI_T_event_get_source(instance, &index_of))

/* What counts, and there is nothing. */
#define EVERY_COUNT(IS) \
    IS(MPI_T_cvar_get_num) IS(MPI_T_pvar_get_num) IS(MPI_T_event_get_num) IS(MPI_T_source_get_num) \
    IS(MPI_T_category_get_num) IS(MPI_T_category_changed)

static void not_initialized(void) {
#define CHECK_NOT_THERE(class, call) CHECK((call) == MPI_T_ERR_NOT_INITIALIZED);
    EVERY_WRONG(CHECK_NOT_THERE)
#define CHECK_NO_COUNT(get) CHECK(get(&count) == MPI_T_ERR_NOT_INITIALIZED);
    EVERY_COUNT(CHECK_NO_COUNT)
    CHECK(MPI_T_pvar_session_create(&session) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
}

static void initialized(void) {
#define CHECK_NONE(get) CHECK((count = 7, get(&count)) == MPI_SUCCESS && count == 0);
    EVERY_COUNT(CHECK_NONE)
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS && session != MPI_T_PVAR_SESSION_NULL);
#define CHECK_WRONG(class, call) CHECK((call) == MPI_T_ERR_INVALID_##class);
    EVERY_WRONG(CHECK_WRONG)
    /* All variables of a session, of which there are none. */
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_T_ERR_INVALID_SESSION);
}

int main(int argc, char **argv) {
    int provided;
    /* It begins before MPI does, and ends when it was ended as often as begun. */
    not_initialized();
    for (int turn = 0; turn < 2; turn++)
        CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS && provided >= MPI_THREAD_SINGLE);
    /* Between the levels of threads is the next one. */
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE + 1, &provided) == MPI_SUCCESS && provided == MPI_THREAD_FUNNELED);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    initialized();
    begin(&argc, &argv);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    initialized();
    MPI_Finalize();
    initialized();
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    not_initialized();
    return 0;
}
