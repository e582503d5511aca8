#include "check.h"

static int told;

static void about_session(MPI_Session *session, int *code, ...) {
    told += *session != MPI_SESSION_NULL && class_of(*code) == MPI_ERR_ARG;
}

static void about_comm(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }

/* What a session knows, and who is told of its errors. */
static void asked(void) {
    MPI_Session session;
    MPI_Info info;
    MPI_Group group;
    MPI_Errhandler handler, found;
    int count, flag, length, is_there[2] = {0, 0};
    char name[MPI_MAX_PSET_NAME_LEN], value[32];
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED");
    MPI_Session_init(info, MPI_ERRORS_RETURN, &session);
    MPI_Info_free(&info);
    MPI_Session_get_info(session, &info);
    length = sizeof value;
    MPI_Info_get_string(info, "thread_level", &length, value, &flag);
    CHECK(flag && !strncmp(value, "MPI_THREAD_", 11));
    MPI_Info_free(&info);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (int i = 0; i < count; i++) {
        char sizes[16], cut[6] = "....!";
        int members, needed = 0, room = 5;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &needed, NULL);
        length = sizeof name;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
        CHECK(length == needed && strlen(name) + 1 == (size_t)needed);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &room, cut);
        CHECK(room == needed && !strcmp(cut, "mpi:") && cut[5] == 0);
        MPI_Session_get_pset_info(session, name, &info);
        length = sizeof sizes;
        MPI_Info_get_string(info, "mpi_size", &length, sizes, &flag);
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &members);
        CHECK(flag && atoi(sizes) == members);
        if (!strcmp(name, "mpi://WORLD")) is_there[0] = members == size;
        if (!strcmp(name, "mpi://SELF")) is_there[1] = members == 1;
        MPI_Group_free(&group);
        MPI_Info_free(&info);
    }
    CHECK(is_there[0] && is_there[1]);
    MPI_Session_get_errhandler(session, &found);
    CHECK(found == MPI_ERRORS_RETURN);
    length = sizeof name;
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, name)) == MPI_ERR_ARG);
    MPI_Session_create_errhandler(about_session, &handler);
    MPI_Session_set_errhandler(session, handler);
    MPI_Errhandler_free(&handler);
    CHECK(class_of(MPI_Session_get_pset_info(session, "mpi://NOBODY", &info)) == MPI_ERR_ARG && told == 1);
    CHECK(class_of(MPI_Group_from_session_pset(session, "mpi://NOBODY", &group)) == MPI_ERR_ARG && told == 2);
    CHECK(MPI_Session_call_errhandler(session, MPI_ERR_ARG) == MPI_SUCCESS && told == 3);
    MPI_Session_get_errhandler(session, &found);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    CHECK(MPI_Session_call_errhandler(session, MPI_ERR_ARG) == MPI_SUCCESS && told == 3);
    MPI_Session_set_errhandler(session, found);
    MPI_Errhandler_free(&found);
    MPI_Session_call_errhandler(session, MPI_ERR_ARG);
    CHECK(told == 4);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(about_comm, &handler);
    CHECK(class_of(MPI_Session_set_errhandler(session, handler)) == MPI_ERR_ARG);
    MPI_Errhandler_free(&handler);
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
}

/* A program of sessions only, one after the other: nobody calls MPI_Init. */
int main(void) {
    for (int turn = 0; turn < 2; turn++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int sum, one = 1;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, turn == 0 ? "mpi://WORLD" : "mpi://world", &group);
        MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Comm_size(comm, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size);
        char memory[64 + MPI_BSEND_OVERHEAD];
        MPI_Session_attach_buffer(session, memory, sizeof memory);
        MPI_Comm_rank(comm, &rank);
        MPI_Bsend(&one, 1, MPI_INT, rank, 0, comm);
        MPI_Recv(&sum, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE);
        CHECK(sum == 1);
        void *detached;
        int length;
        MPI_Session_detach_buffer(session, &detached, &length);
        CHECK(detached == memory && length == sizeof memory);
        MPI_Comm_free(&comm);
        MPI_Group_free(&group);
        MPI_Session_finalize(&session);
    }
    asked();
    return 0;
}
