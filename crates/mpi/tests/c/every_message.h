/* Each mode blocking, non-blocking, and persistent, started twice; receives likewise. */
static void OWN(modes)(void) {
    static char memory[4 * (sizeof(int) + MPI_BSEND_OVERHEAD)];
    int (*const send[])(const void *, COUNT, MPI_Datatype, int, int, MPI_Comm) = {
        FORM(Send), FORM(Ssend), FORM(Bsend), FORM(Rsend)};
    int (*const start[])(const void *, COUNT, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        FORM(Isend), FORM(Issend), FORM(Ibsend), FORM(Irsend)};
    int (*const prepare[])(const void *, COUNT, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        FORM(Send_init), FORM(Ssend_init), FORM(Bsend_init), FORM(Rsend_init)};
    MPI_Request sending = MPI_REQUEST_NULL, receiving;
    MPI_Status status;
    MPI_Message message;
    FORM(Buffer_attach)(memory, sizeof memory);
    for (int mode = 0; mode < 4; mode++) {
        int tag = mode;
        FORM(Recv_init)(&got, 1, MPI_INT, previous, tag, MPI_COMM_WORLD, &receiving);
        prepare[mode](&sent, 1, MPI_INT, next, tag, MPI_COMM_WORLD, &sending);
        CHECK(sending != MPI_REQUEST_NULL && receiving != MPI_REQUEST_NULL);
        for (int turn = 0; turn < 2; turn++) {
            sent = value(rank, turn), got = -1;
            MPI_Start(&receiving);
            MPI_Barrier(MPI_COMM_WORLD); /* for the ready sends */
            MPI_Start(&sending);
            MPI_Wait(&receiving, &status);
            CHECK(came(&status, tag, turn));
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&sending);
        MPI_Request_free(&receiving);
        for (int way = 0; way < 2; way++) {
            sent = value(rank, 2 + way), got = -1;
            FORM(Irecv)(&got, 1, MPI_INT, previous, tag, MPI_COMM_WORLD, &receiving);
            MPI_Barrier(MPI_COMM_WORLD);
            if (way == 0) send[mode](&sent, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
            else start[mode](&sent, 1, MPI_INT, next, tag, MPI_COMM_WORLD, &sending);
            MPI_Wait(&receiving, &status);
            CHECK(came(&status, tag, 2 + way));
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
        }
        if (mode == 3) continue; /* Nobody has posted these receives. */
        for (int way = 0; way < 3; way++) {
            sent = value(rank, 4 + way), got = -1;
            start[mode](&sent, 1, MPI_INT, next, tag, MPI_COMM_WORLD, &sending);
            if (way == 0) {
                FORM(Recv)(&got, 1, MPI_INT, previous, tag, MPI_COMM_WORLD, &status);
            } else {
                MPI_Mprobe(previous, tag, MPI_COMM_WORLD, &message, &status);
                if (way == 1) FORM(Mrecv)(&got, 1, MPI_INT, &message, &status);
                if (way == 2) FORM(Imrecv)(&got, 1, MPI_INT, &message, &receiving), MPI_Wait(&receiving, &status);
                CHECK(message == MPI_MESSAGE_NULL);
            }
            CHECK(came(&status, tag, 4 + way));
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
        }
    }
    void *detached;
    COUNT length;
    FORM(Buffer_detach)(&detached, &length);
    CHECK(detached == memory && length == sizeof memory);
}

/* A send and a receive at once. */
static void OWN(exchanges)(void) {
    MPI_Request request;
    MPI_Status status;
    for (int way = 0; way < 4; way++) {
        sent = value(rank, way), got = way < 2 ? -1 : sent;
        if (way == 0) FORM(Sendrecv)(&sent, 1, MPI_INT, next, 1, &got, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &status);
        if (way == 1) FORM(Isendrecv)(&sent, 1, MPI_INT, next, 1, &got, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request);
        if (way == 2) FORM(Sendrecv_replace)(&got, 1, MPI_INT, next, 1, previous, 1, MPI_COMM_WORLD, &status);
        if (way == 3) FORM(Isendrecv_replace)(&got, 1, MPI_INT, next, 1, previous, 1, MPI_COMM_WORLD, &request);
        if (way % 2) MPI_Wait(&request, &status);
        CHECK(came(&status, 1, way));
    }
    /* With nobody at one end or both. */
    int is_first = rank == 0, is_last = rank == size - 1;
    sent = got = value(rank, 5);
    int to = is_last ? MPI_PROC_NULL : next, from = is_first ? MPI_PROC_NULL : previous;
    FORM(Sendrecv_replace)(&got, 1, MPI_INT, to, 2, from, 2, MPI_COMM_WORLD, &status);
    if (is_first) CHECK(got == sent && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    else CHECK(came(&status, 2, 5));
    FORM(Isendrecv)(&sent, 1, MPI_INT, MPI_PROC_NULL, 2, &got, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    FORM(Recv_init)(&got, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Request_free(&request);
}

/* Messages of parts, which are made ready one by one, by a range and by a list. */
static void OWN(parts)(void) {
    enum { PARTS = 6, EACH = 3 };
    int from[PARTS * EACH], to[PARTS * EACH], flag, rest[2] = {4, 0};
    MPI_Request requests[2], *none = &requests[0];
    MPI_Comm world = MPI_COMM_WORLD;
    FORM(Precv_init)(to, PARTS, EACH, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    FORM(Psend_init)(from, PARTS, EACH, MPI_INT, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < PARTS * EACH; i++) from[i] = value(rank, turn + i), to[i] = -1;
        MPI_Startall(2, requests);
        MPI_Parrived(requests[0], 0, &flag);
        CHECK(!flag);
        MPI_Barrier(MPI_COMM_WORLD); /* Nobody sends before all have looked. */
        MPI_Pready_range(1, 3, requests[1]);
        MPI_Pready(5, requests[1]);
        MPI_Pready_list(2, rest, requests[1]);
        for (int i = 0; i < PARTS; i++) {
            do MPI_Parrived(requests[0], i, &flag);
            while (!flag);
            for (int j = i * EACH; j < (i + 1) * EACH; j++) CHECK(to[j] == value(previous, turn + j));
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(class_of(MPI_Parrived(requests[0], PARTS, &flag)) == MPI_ERR_ARG);
        CHECK(class_of(MPI_Pready_range(0, PARTS, requests[1])) != MPI_SUCCESS);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(class_of(FORM(Psend_init)(from, -1, 1, MPI_INT, next, 3, world, MPI_INFO_NULL, none)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Psend_init)(from, 1, 1, MPI_INT, size, 3, world, MPI_INFO_NULL, none)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Precv_init)(to, 1, -1, MPI_INT, previous, 3, world, MPI_INFO_NULL, none)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Precv_init)(to, 1, 1, MPI_DATATYPE_NULL, previous, 3, world, MPI_INFO_NULL, none)) == MPI_ERR_TYPE);
}

/* Buffers for buffered sends: the process's, a communicator's, a session's. */
static void OWN(buffers)(void) {
    static char memory[sizeof(int) + MPI_BSEND_OVERHEAD];
    MPI_Comm comm;
    MPI_Session session;
    MPI_Request request;
    void *detached;
    COUNT length;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    CHECK(class_of(FORM(Bsend)(&sent, 1, MPI_INT, next, 4, comm)) == MPI_ERR_BUFFER);
    for (int way = 0; way < 3; way++) {
        for (int automatic = 0; automatic < 2; automatic++) {
            void *buffer = automatic ? MPI_BUFFER_AUTOMATIC : memory;
            sent = value(rank, way), got = -1;
            if (way == 0) FORM(Buffer_attach)(buffer, sizeof memory);
            if (way == 1) FORM(Comm_attach_buffer)(comm, buffer, sizeof memory);
            if (way == 2) FORM(Session_attach_buffer)(session, buffer, sizeof memory);
            int again = way == 0   ? FORM(Buffer_attach)(buffer, sizeof memory)
                        : way == 1 ? FORM(Comm_attach_buffer)(comm, buffer, sizeof memory)
                                   : FORM(Session_attach_buffer)(session, buffer, sizeof memory);
            CHECK(class_of(again) == MPI_ERR_BUFFER);
            FORM(Bsend)(&sent, 1, MPI_INT, next, 4, comm);
            FORM(Recv)(&got, 1, MPI_INT, previous, 4, comm, MPI_STATUS_IGNORE);
            CHECK(got == value(previous, way));
            request = MPI_REQUEST_NULL;
            if (way == 0) MPI_Buffer_flush(), MPI_Buffer_iflush(&request);
            if (way == 1) MPI_Comm_flush_buffer(comm), MPI_Comm_iflush_buffer(comm, &request);
            if (way == 2) MPI_Session_flush_buffer(session), MPI_Session_iflush_buffer(session, &request);
            CHECK(request != MPI_REQUEST_NULL);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            detached = NULL;
            if (way == 0) FORM(Buffer_detach)(&detached, &length);
            if (way == 1) FORM(Comm_detach_buffer)(comm, &detached, &length);
            if (way == 2) FORM(Session_detach_buffer)(session, &detached, &length);
            CHECK(detached == buffer && (automatic || length == sizeof memory));
        }
    }
    CHECK(class_of(FORM(Bsend)(&sent, 1, MPI_INT, next, 4, comm)) == MPI_ERR_BUFFER);
    CHECK(class_of(FORM(Buffer_attach)(memory, -1)) != MPI_SUCCESS);
    CHECK(class_of(FORM(Comm_attach_buffer)(MPI_COMM_NULL, memory, 1)) == MPI_ERR_COMM);
    CHECK(class_of(FORM(Session_attach_buffer)(MPI_SESSION_NULL, memory, 1)) == MPI_ERR_SESSION);
    CHECK(class_of(FORM(Comm_detach_buffer)(MPI_COMM_NULL, &detached, &length)) == MPI_ERR_COMM);
    CHECK(class_of(FORM(Session_detach_buffer)(MPI_SESSION_NULL, &detached, &length)) == MPI_ERR_SESSION);
    CHECK(class_of(MPI_Comm_flush_buffer(MPI_COMM_NULL)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_iflush_buffer(MPI_COMM_NULL, &request)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Session_flush_buffer(MPI_SESSION_NULL)) == MPI_ERR_SESSION);
    CHECK(class_of(MPI_Session_iflush_buffer(MPI_SESSION_NULL, &request)) == MPI_ERR_SESSION);
    MPI_Session_finalize(&session);
    MPI_Comm_free(&comm);
}

static void OWN(wrong)(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Comm world = MPI_COMM_WORLD;
    CHECK(class_of(FORM(Ssend)(&sent, 1, MPI_INT, -9, 0, world)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Rsend)(&sent, 1, MPI_INT, MPI_ANY_SOURCE, 0, world)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Isend)(&sent, 1, MPI_INT, 0, MPI_ANY_TAG, world, &request)) == MPI_ERR_TAG);
    CHECK(class_of(FORM(Issend)(&sent, -1, MPI_INT, 0, 0, world, &request)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Ibsend)(&sent, 1, MPI_DATATYPE_NULL, 0, 0, world, &request)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Irsend)(&sent, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request)) == MPI_ERR_COMM);
    CHECK(class_of(FORM(Send_init)(&sent, 1, MPI_INT, size, 0, world, &request)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Ssend_init)(&sent, 1, MPI_INT, 0, -3, world, &request)) == MPI_ERR_TAG);
    CHECK(class_of(FORM(Bsend_init)(&sent, -1, MPI_INT, 0, 0, world, &request)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Rsend_init)(&sent, 1, MPI_DATATYPE_NULL, 0, 0, world, &request)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Recv)(&got, 1, MPI_INT, size, 0, world, &status)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Irecv)(&got, 1, MPI_INT, 0, -3, world, &request)) == MPI_ERR_TAG);
    CHECK(class_of(FORM(Recv_init)(&got, -1, MPI_INT, 0, 0, world, &request)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Sendrecv)(&sent, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, size, 0, world, &status)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Isendrecv)(&sent, 1, MPI_INT, 0, 0, &got, 1, MPI_DATATYPE_NULL, 0, 0, world, &request)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Sendrecv_replace)(&got, 1, MPI_INT, size, 0, 0, 0, world, &status)) == MPI_ERR_RANK);
    CHECK(class_of(FORM(Isendrecv_replace)(&got, 1, MPI_INT, 0, 0, 0, -3, world, &request)) == MPI_ERR_TAG);
    /* What is longer than there is room for is cut off. */
    int two[2] = {7, 8}, one = -1;
    FORM(Isend)(two, 2, MPI_INT, rank, 5, world, &request);
    CHECK(class_of(FORM(Recv)(&one, 1, MPI_INT, rank, 5, world, &status)) == MPI_ERR_TRUNCATE);
    MPI_Wait(&request, &status);
}
