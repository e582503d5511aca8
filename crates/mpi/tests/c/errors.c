#include "check.h"

static int called, seen;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    called++;
    seen = class_of(*code);
}

static void session_handler(MPI_Session *session, int *code, ...) {
    (void)session;
    (void)code;
    called++;
}

/* A buffer of the communicator is the bound; without one, whichever has room. */
static void buffers(void) {
    static char small[8], large[512], of_comm[8], message[256];
    MPI_Session session;
    MPI_Comm own;
    void *detached;
    int length;
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Buffer_attach(small, sizeof small);
    CHECK(class_of(MPI_Bsend(message, sizeof message, MPI_BYTE, 0, 0, own)) == MPI_ERR_BUFFER);
    MPI_Session_attach_buffer(session, large, sizeof large);
    CHECK(MPI_Bsend(message, sizeof message, MPI_BYTE, 0, 0, own) == MPI_SUCCESS);
    MPI_Recv(message, sizeof message, MPI_BYTE, 0, 0, own, MPI_STATUS_IGNORE);
    MPI_Comm_attach_buffer(own, of_comm, sizeof of_comm);
    CHECK(class_of(MPI_Bsend(message, sizeof message, MPI_BYTE, 0, 0, own)) == MPI_ERR_BUFFER);
    MPI_Comm_detach_buffer(own, &detached, &length);
    MPI_Session_detach_buffer(session, &detached, &length);
    MPI_Buffer_detach(&detached, &length);
    MPI_Session_finalize(&session);
    MPI_Comm_free(&own);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    char text[MPI_MAX_ERROR_STRING];
    int length, code, value = 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Until that of MPI_COMM_SELF is set, this one has what belongs to no communicator, as before MPI 4. */
    MPI_Datatype none = MPI_DATATYPE_NULL;
    CHECK(class_of(MPI_Type_commit(&none)) == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_RANK);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "MPI_ERR_RANK") && strstr(text, "MPI_Send"));
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD)) == MPI_ERR_ROOT);
    CHECK(class_of(MPI_Allreduce(&value, &code, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &code)) == MPI_ERR_COMM);

    /* A message that is too long, alone and among others. */
    int list[4] = {1, 2, 3, 4}, got[2];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[1]);
    MPI_Send(list, 4, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Send(list, 1, MPI_INT, 0, 2, MPI_COMM_SELF);
    CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS);

    CHECK(statuses[0].MPI_TAG == 1 && statuses[0].MPI_SOURCE == 0 && statuses[1].MPI_TAG == 2);

    /* What makes an object with an error handler is told by that one. */
    MPI_Errhandler teller;
    MPI_Comm none_made;
    MPI_Session session;
    MPI_Info level;
    MPI_Comm_create_errhandler(handler, &teller);
    code = MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, teller, &none_made);
    CHECK(class_of(code) == MPI_ERR_GROUP && called == 1 && none_made == MPI_COMM_NULL);
    /* So are errors on what was made with it. */
    MPI_Group world, own, others;
    MPI_Comm made;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_create_from_group(world, "x", MPI_INFO_NULL, teller, &made);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, -9, 0, made)) == MPI_ERR_RANK && called == 2);
    MPI_Comm_free(&made);
    if (size > 1) {
        int first = 0;
        MPI_Group_incl(world, 1, &first, &own);
        MPI_Group_difference(world, own, &others);
        MPI_Intercomm_create_from_groups(rank ? others : own, 0, rank ? own : others, 0, "y", MPI_INFO_NULL, teller, &made);
        CHECK(class_of(MPI_Send(&value, 1, MPI_INT, -9, 0, made)) == MPI_ERR_RANK && called == 3);
        MPI_Comm_free(&made);
        MPI_Group_free(&own);
        MPI_Group_free(&others);
    }
    called = 0;
    MPI_Errhandler_free(&teller);
    /* One for sessions has nothing to do with communicators. */
    MPI_Session_create_errhandler(session_handler, &teller);
    CHECK(class_of(MPI_Comm_create_from_group(world, "x", MPI_INFO_NULL, teller, &made)) == MPI_ERR_ARG && !called);
    MPI_Errhandler_free(&teller);
    MPI_Group_free(&world);
    MPI_Info_create(&level);
    MPI_Info_set(level, "thread_level", "MPI_THREAD_SOME");
    CHECK(class_of(MPI_Session_init(level, MPI_ERRORS_RETURN, &session)) == MPI_ERR_INFO_VALUE);
    MPI_Info_free(&level);

    buffers();

    /* What is not there says so, by both names. */
    MPI_Win win;
    code = MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "MPI_Win_create_dynamic"));
    MPI_File file;
    CHECK(class_of(PMPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_UNSUPPORTED_OPERATION);

    /* A handler of the program's, which duplicates inherit. */
    MPI_Errhandler ours;
    MPI_Comm other;
    MPI_Comm_create_errhandler(handler, &ours);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours);
    MPI_Errhandler_free(&ours);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Send(&value, 1, MPI_INT, -9, 0, other);
    MPI_Win_create_dynamic(MPI_INFO_NULL, other, &win);
    CHECK(called == 2 && seen == MPI_ERR_UNSUPPORTED_OPERATION);

    /* A matched message's errors are its communicator's. */
    MPI_Message message;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    for (int way = 0; way < 2; way++) {
        MPI_Request request;
        MPI_Isend(list, 4, MPI_INT, rank, 3, other, &request);
        MPI_Mprobe(rank, 3, other, &message, MPI_STATUS_IGNORE);
        if (way == 0) {
            CHECK(class_of(MPI_Mrecv(got, -1, MPI_INT, &message, MPI_STATUS_IGNORE)) == MPI_ERR_COUNT);
            CHECK(called == 3 && seen == MPI_ERR_COUNT && message != MPI_MESSAGE_NULL);
            CHECK(class_of(MPI_Mrecv(got, 1, MPI_INT, &message, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
            CHECK(called == 4 && seen == MPI_ERR_TRUNCATE && message == MPI_MESSAGE_NULL);
        } else {
            MPI_Request receive;
            CHECK(class_of(MPI_Imrecv(got, -1, MPI_INT, &message, &receive)) == MPI_ERR_COUNT);
            CHECK(called == 5 && seen == MPI_ERR_COUNT);
            MPI_Imrecv(got, 1, MPI_INT, &message, &receive);
            CHECK(class_of(MPI_Wait(&receive, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
            CHECK(called == 6 && seen == MPI_ERR_TRUNCATE);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_free(&other);

    /* Classes and codes of the program's. */
    int class, *last, flag;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "out of cheese");
    MPI_Error_string(code, text, &length);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(!strcmp(text, "out of cheese") && length == 13 && class_of(code) == class && *last == code);
    MPI_Finalize();
    return 0;
}
