#include "check.h"

/* Messages of a rank to itself: each is complete when it was sent, so a test finds it sooner or later. */
enum { COUNT = 4 };
static int got[COUNT];

static void receive_all(MPI_Request *requests) {
    memset(got, -1, sizeof got);
    for (int i = 0; i < COUNT; i++) MPI_Irecv(&got[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
}

static void send(int tag) {
    int value = 10 * tag;
    MPI_Send(&value, 1, MPI_INT, rank, tag, MPI_COMM_WORLD);
}

/* That of a message with one number. */
static int is_of(const MPI_Status *status, int tag) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    return status->MPI_SOURCE == rank && status->MPI_TAG == tag && count == 1 && got[tag] == 10 * tag;
}

/* That of what was no operation (MPI 5.0, 3.7.3). */
static int is_empty(const MPI_Status *status) {
    int count, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && status->MPI_ERROR == MPI_SUCCESS &&
           !count && !cancelled;
}

static void tests(void) {
    MPI_Request requests[COUNT];
    MPI_Status status, statuses[COUNT];
    int flag, which, done, indices[COUNT], seen = 0;
    receive_all(requests);
    MPI_Test(&requests[1], &flag, &status);
    CHECK(!flag && requests[1] != MPI_REQUEST_NULL);
    MPI_Testany(COUNT, requests, &which, &flag, &status);
    CHECK(!flag && which == MPI_UNDEFINED);
    MPI_Testsome(COUNT, requests, &done, indices, statuses);
    CHECK(done == 0);
    send(1);
    do MPI_Test(&requests[1], &flag, &status);
    while (!flag);
    CHECK(is_of(&status, 1) && requests[1] == MPI_REQUEST_NULL);
    send(3);
    do MPI_Testany(COUNT, requests, &which, &flag, &status);
    while (!flag);
    CHECK(which == 3 && is_of(&status, 3) && requests[3] == MPI_REQUEST_NULL);
    MPI_Testall(COUNT, requests, &flag, statuses);
    CHECK(!flag && requests[0] != MPI_REQUEST_NULL);
    send(0);
    send(2);
    while (seen != 5) {
        MPI_Testsome(COUNT, requests, &done, indices, statuses);
        for (int i = 0; i < done; i++) {
            seen |= 1 << indices[i];
            CHECK(is_of(&statuses[i], indices[i]) && requests[indices[i]] == MPI_REQUEST_NULL);
        }
    }
    /* Of requests that are none. */
    MPI_Test(&requests[0], &flag, &status);
    CHECK(flag && is_empty(&status));
    MPI_Testany(COUNT, requests, &which, &flag, &status);
    CHECK(flag && which == MPI_UNDEFINED && is_empty(&status));
    MPI_Testsome(COUNT, requests, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED);
    MPI_Testall(COUNT, requests, &flag, statuses);
    CHECK(flag && is_empty(&statuses[3]));
    MPI_Testall(0, NULL, &flag, NULL);
    CHECK(flag);
    MPI_Wait(&requests[0], &status);
    CHECK(is_empty(&status));
    MPI_Waitany(COUNT, requests, &which, &status);
    CHECK(which == MPI_UNDEFINED && is_empty(&status));
    MPI_Waitall(COUNT, requests, statuses);
    CHECK(is_empty(&statuses[0]));
    receive_all(requests);
    for (int i = 0; i < COUNT; i++) send(i);
    do MPI_Testall(COUNT, requests, &flag, statuses);
    while (!flag);
    for (int i = 0; i < COUNT; i++) CHECK(is_of(&statuses[i], i) && requests[i] == MPI_REQUEST_NULL);
}

/* The same without ending the requests. */
static void looks(void) {
    MPI_Request requests[COUNT];
    MPI_Status status, statuses[COUNT];
    int flag, which, done, indices[COUNT];
    receive_all(requests);
    MPI_Request_get_status(requests[2], &flag, &status);
    CHECK(!flag);
    MPI_Request_get_status_any(COUNT, requests, &which, &flag, &status);
    CHECK(!flag && which == MPI_UNDEFINED);
    MPI_Request_get_status_some(COUNT, requests, &done, indices, statuses);
    CHECK(done == 0);
    MPI_Request_get_status_all(COUNT, requests, &flag, statuses);
    CHECK(!flag);
    send(2);
    do MPI_Request_get_status_any(COUNT, requests, &which, &flag, &status);
    while (!flag);
    CHECK(which == 2 && is_of(&status, 2) && requests[2] != MPI_REQUEST_NULL);
    do MPI_Request_get_status(requests[2], &flag, &status);
    while (!flag);
    CHECK(is_of(&status, 2));
    MPI_Request_get_status_some(COUNT, requests, &done, indices, statuses);
    CHECK(done == 1 && indices[0] == 2 && is_of(&statuses[0], 2));
    send(0), send(1), send(3);
    do MPI_Request_get_status_all(COUNT, requests, &flag, statuses);
    while (!flag);
    for (int i = 0; i < COUNT; i++) CHECK(is_of(&statuses[i], i) && requests[i] != MPI_REQUEST_NULL);
    MPI_Request_get_status_some(COUNT, requests, &done, indices, MPI_STATUSES_IGNORE);
    CHECK(done == COUNT);
    MPI_Waitall(COUNT, requests, statuses);
    for (int i = 0; i < COUNT; i++) CHECK(is_of(&statuses[i], i));
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    CHECK(flag && is_empty(&status));
    MPI_Request_get_status_any(COUNT, requests, &which, &flag, &status);
    CHECK(flag && which == MPI_UNDEFINED && is_empty(&status));
    MPI_Request_get_status_some(COUNT, requests, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED);
    MPI_Request_get_status_all(COUNT, requests, &flag, statuses);
    CHECK(flag && is_empty(&statuses[1]));
}

/* A persistent request that is not active is as none; one that is complete can be started again. */
static void inactive(void) {
    MPI_Request request;
    MPI_Status status;
    int flag, which, done, value;
    MPI_Recv_init(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(flag && is_empty(&status) && request != MPI_REQUEST_NULL);
    MPI_Wait(&request, &status);
    CHECK(is_empty(&status));
    MPI_Testany(1, &request, &which, &flag, &status);
    CHECK(flag && which == MPI_UNDEFINED && is_empty(&status));
    MPI_Testsome(1, &request, &done, &which, &status);
    CHECK(done == MPI_UNDEFINED);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && is_empty(&status));
    for (int turn = 0; turn < 2; turn++) {
        MPI_Start(&request);
        CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST);
        MPI_Test(&request, &flag, &status);
        CHECK(!flag);
        send(0);
        do MPI_Test(&request, &flag, &status);
        while (!flag);
        CHECK(status.MPI_SOURCE == rank && value == 0 && request != MPI_REQUEST_NULL);
    }
    /* A cancelled one, too. */
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && request != MPI_REQUEST_NULL);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(class_of(MPI_Request_free(&request)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Cancel(&request)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Startall(1, &request)) == MPI_ERR_REQUEST);
    MPI_Irecv(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST);
    send(0);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Testsome(-1, &request, &done, &which, &status)) == MPI_ERR_COUNT);
}

/* One message that is too long, in each function that tells of it. */
static void failed(void) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int numbers[2] = {1, 2}, value, flag, which, done, indices[2], code;
    for (int way = 0; way < 6; way++) {
        MPI_Irecv(&value, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        MPI_Send(numbers, 2, MPI_INT, rank, 7, MPI_COMM_WORLD);
        statuses[0].MPI_ERROR = -1;
        do {
            flag = 1, done = 1;
            code = way == 0   ? MPI_Test(requests, &flag, statuses)
                   : way == 1 ? MPI_Testany(2, requests, &which, &flag, statuses)
                   : way == 2 ? MPI_Waitany(2, requests, &which, statuses)
                   : way == 3 ? MPI_Testall(2, requests, &flag, statuses)
                   : way == 4 ? MPI_Testsome(2, requests, &done, indices, statuses)
                              : MPI_Waitsome(2, requests, &done, indices, statuses);
        } while (!flag || done == 0);
        CHECK(class_of(code) == (way < 3 ? MPI_ERR_TRUNCATE : MPI_ERR_IN_STATUS) && requests[0] == MPI_REQUEST_NULL);
        if (way == 1 || way == 2) CHECK(which == 0);
        if (way >= 4) CHECK(done == 1 && indices[0] == 0);
        if (way >= 3) CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE && statuses[0].MPI_TAG == 7);
        if (way == 3) CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS);
    }
}

static int queried, freed, cancelled_complete;

static int query(void *extra, MPI_Status *status) {
    queried++;
    MPI_Status_set_source(status, 5);
    MPI_Status_set_tag(status, 6);
    MPI_Status_set_error(status, MPI_SUCCESS);
    MPI_Status_set_cancelled(status, *(int *)extra);
    MPI_Status_set_elements(status, MPI_DOUBLE, 7);
    return MPI_SUCCESS;
}

static int count_free(void *extra) { return (void)extra, freed++, MPI_SUCCESS; }
static int cancel(void *extra, int complete) { return *(int *)extra = 1, cancelled_complete = complete, MPI_SUCCESS; }
static int query_fails(void *extra, MPI_Status *status) { return (void)extra, (void)status, MPI_ERR_IO; }

/* Requests of the program's own (MPI 5.0, 13.2). */
static void generalized(void) {
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    int is_cancelled = 0, flag, count, which;
    MPI_Grequest_start(query, count_free, cancel, &is_cancelled, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && queried == 0);
    MPI_Cancel(&request);
    CHECK(is_cancelled && !cancelled_complete);
    MPI_Grequest_complete(request);
    MPI_Cancel(&request);
    CHECK(cancelled_complete);
    do MPI_Test(&request, &flag, &status);
    while (!flag);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    MPI_Test_cancelled(&status, &flag);
    CHECK(status.MPI_SOURCE == 5 && status.MPI_TAG == 6 && count == 7 && flag && queried == 1 && freed == 1);
    CHECK(request == MPI_REQUEST_NULL);
    for (int i = 0; i < 2; i++) MPI_Grequest_start(query, count_free, cancel, &is_cancelled, &requests[i]);
    MPI_Grequest_complete(requests[1]);
    MPI_Waitany(2, requests, &which, &status);
    CHECK(which == 1 && status.MPI_TAG == 6 && freed == 2);
    MPI_Grequest_complete(requests[0]);
    MPI_Waitall(2, requests, statuses);
    CHECK(statuses[0].MPI_SOURCE == 5 && is_empty(&statuses[1]) && freed == 3);
    /* What the function returns is what went wrong. */
    MPI_Grequest_start(query_fails, count_free, cancel, &is_cancelled, &request);
    MPI_Grequest_complete(request);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_IO && freed == 4);
    MPI_Irecv(&count, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    CHECK(class_of(MPI_Grequest_complete(request)) == MPI_ERR_REQUEST);
    MPI_Wait(&request, &status);
    CHECK(class_of(MPI_Grequest_complete(request)) == MPI_ERR_REQUEST);
}

/* What programs and libraries write to statuses, and read from them. */
static void statuses(void) {
    MPI_Status status = {0};
    MPI_Datatype three;
    MPI_Count many = (MPI_Count)3 << 31, large;
    int value, small;
    MPI_Status_set_source(&status, 3);
    MPI_Status_set_tag(&status, 4);
    MPI_Status_set_error(&status, MPI_ERR_TRUNCATE);
    CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 4 && status.MPI_ERROR == MPI_ERR_TRUNCATE);
    MPI_Status_get_source(&status, &value);
    CHECK(value == 3);
    MPI_Status_get_tag(&status, &value);
    CHECK(value == 4);
    MPI_Status_get_error(&status, &value);
    CHECK(value == MPI_ERR_TRUNCATE);
    for (int flag = 1; flag >= 0; flag--) {
        MPI_Status_set_cancelled(&status, flag);
        MPI_Test_cancelled(&status, &value);
        CHECK(value == flag);
    }
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    for (int way = 0; way < 2; way++) {
        if (way == 0) MPI_Status_set_elements_x(&status, three, many);
        else MPI_Status_set_elements_c(&status, three, many);
        MPI_Get_elements(&status, three, &small);
        CHECK(small == MPI_UNDEFINED);
        MPI_Get_elements_x(&status, three, &large);
        CHECK(large == many);
        MPI_Get_elements_c(&status, three, &large);
        CHECK(large == many);
        MPI_Get_count_c(&status, three, &large);
        CHECK(large == many / 3);
        MPI_Get_count(&status, three, &small);
        CHECK(small == (many / 3 > 0x7fffffff ? MPI_UNDEFINED : many / 3));
        MPI_Get_count(&status, MPI_BYTE, &small);
        CHECK(small == MPI_UNDEFINED);
    }
    MPI_Status_set_elements_c(&status, three, 4);
    MPI_Get_count_c(&status, three, &large);
    CHECK(large == MPI_UNDEFINED);
    MPI_Get_elements_c(&status, three, &large);
    CHECK(large == 4);
    CHECK(class_of(MPI_Status_set_elements(&status, three, -1)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Status_set_elements_c(&status, MPI_DATATYPE_NULL, 1)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Get_elements_x(&status, MPI_DATATYPE_NULL, &large)) == MPI_ERR_TYPE);
    MPI_Type_free(&three);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    tests();
    looks();
    inactive();
    failed();
    generalized();
    statuses();
    MPI_Finalize();
    return 0;
}
