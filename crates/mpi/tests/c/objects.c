#include "check.h"

static int copies, deletions;
static long copied_from;

/* Copies keep a value one further on; what `extra` counts down to is refused. */
static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key;
    copies++;
    if (*(int *)extra == 0) return MPI_ERR_OTHER;
    *(char **)out = (char *)in + 1;
    *flag = *(int *)extra > 0;
    return MPI_SUCCESS;
}

static int drop(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value;
    deletions++;
    return *(int *)extra == -2 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int copy_of_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    copied_from = (long)type;
    return copy(MPI_COMM_NULL, key, extra, in, out, flag);
}

static int drop_of_type(MPI_Datatype type, int key, void *value, void *extra) {
    return (void)type, drop(MPI_COMM_NULL, key, value, extra);
}

static int drop_of_window(MPI_Win win, int key, void *value, void *extra) {
    return (void)win, drop(MPI_COMM_NULL, key, value, extra);
}

/* Attributes by the functions of MPI 2 and by those of MPI 1, which are the same. */
static void of_communicators(void) {
    for (int old = 0; old < 2; old++) {
        int key, flag, extra = 1, number;
        char place[4], *value;
        MPI_Comm comm, twin;
        copies = deletions = 0;
        if (old) MPI_Keyval_create(copy, drop, &key, &extra);
        else MPI_Comm_create_keyval(copy, drop, &key, &extra);
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
#define GET(comm) (old ? MPI_Attr_get(comm, key, &value, &flag) : MPI_Comm_get_attr(comm, key, &value, &flag))
#define SET(comm, value) (old ? MPI_Attr_put(comm, key, value) : MPI_Comm_set_attr(comm, key, value))
#define DELETE(comm) (old ? MPI_Attr_delete(comm, key) : MPI_Comm_delete_attr(comm, key))
        GET(comm);
        CHECK(!flag && copies == 0);
        SET(comm, place);
        GET(comm);
        CHECK(flag && value == place);
        /* Another value takes the place of the first, which is deleted. */
        SET(comm, place + 1);
        GET(comm);
        CHECK(flag && value == place + 1 && deletions == 1);
        MPI_Comm_dup(comm, &twin);
        GET(twin);
        CHECK(flag && value == place + 2 && copies == 1);
        DELETE(twin);
        GET(twin);
        CHECK(!flag && deletions == 2);
        MPI_Comm_free(&twin);
        CHECK(deletions == 2);
        /* Not copied if the function says so, and no duplicate if it fails. */
        extra = -1;
        MPI_Comm_dup(comm, &twin);
        GET(twin);
        CHECK(!flag && copies == 2);
        MPI_Comm_free(&twin);
        extra = 0;
        CHECK(class_of(MPI_Comm_dup(comm, &twin)) == MPI_ERR_OTHER && copies == 3);
        /* What can't be deleted stays. */
        extra = -2;
        CHECK(class_of(DELETE(comm)) == MPI_ERR_OTHER);
        CHECK(class_of(MPI_Comm_free(&comm)) == MPI_ERR_OTHER && comm != MPI_COMM_NULL);
        GET(comm);
        CHECK(flag);
        extra = 1;
        number = key;
        if (old) MPI_Keyval_free(&key);
        else MPI_Comm_free_keyval(&key);
        CHECK(key == MPI_KEYVAL_INVALID);
        deletions = 0;
        MPI_Comm_free(&comm);
        CHECK(deletions == 1 && comm == MPI_COMM_NULL);
        CHECK(class_of(GET(MPI_COMM_SELF)) == MPI_ERR_KEYVAL);
        CHECK(class_of(SET(MPI_COMM_SELF, place)) == MPI_ERR_KEYVAL);
        CHECK(class_of(DELETE(MPI_COMM_SELF)) == MPI_ERR_KEYVAL);
        CHECK(class_of(old ? MPI_Keyval_free(&number) : MPI_Comm_free_keyval(&number)) == MPI_ERR_KEYVAL);
        /* The standard's own can't be changed. */
        key = MPI_TAG_UB;
        CHECK(class_of(SET(MPI_COMM_WORLD, place)) == MPI_ERR_KEYVAL && class_of(DELETE(MPI_COMM_WORLD)) == MPI_ERR_KEYVAL);
        CHECK(class_of(MPI_Comm_free_keyval(&key)) == MPI_ERR_KEYVAL);
        int *told;
        int known[] = {MPI_TAG_UB, MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_LASTUSEDCODE, MPI_UNIVERSE_SIZE};
        for (int i = 0; i < 7; i++) {
            if (old) MPI_Attr_get(MPI_COMM_WORLD, known[i], &told, &flag);
            else MPI_Comm_get_attr(MPI_COMM_WORLD, known[i], &told, &flag);
            CHECK(flag && (i != 0 || *told >= 32767) && (i != 6 || *told >= size));
        }
        if (old) MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &key, NULL);
        else MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        SET(comm, place);
        MPI_Comm_dup(comm, &twin);
        GET(twin);
        CHECK(flag && value == place);
        MPI_Comm_free(&twin);
        MPI_Comm_free(&comm);
        MPI_Comm_free_keyval(&key);
    }
}

static void of_datatypes(void) {
    int key, flag, extra = 1, of_comm;
    char place[4], *value;
    MPI_Datatype type, twin;
    copies = deletions = 0;
    MPI_Type_create_keyval(copy_of_type, drop_of_type, &key, &extra);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_attr(type, key, &value, &flag);
    CHECK(!flag);
    MPI_Type_set_attr(type, key, place);
    MPI_Type_get_attr(type, key, &value, &flag);
    CHECK(flag && value == place);
    MPI_Type_dup(type, &twin);
    MPI_Type_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == place + 1 && copies == 1 && copied_from == (long)type);
    MPI_Type_delete_attr(twin, key);
    MPI_Type_get_attr(twin, key, &value, &flag);
    CHECK(!flag && deletions == 1);
    MPI_Type_free(&twin);
    extra = 0;
    CHECK(class_of(MPI_Type_dup(type, &twin)) == MPI_ERR_OTHER);
    extra = 1;
    /* A key is for one kind of objects. */
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &of_comm, NULL);
    CHECK(class_of(MPI_Type_set_attr(type, of_comm, place)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, key, place)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Type_free_keyval(&of_comm)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Type_get_attr(type, of_comm, &value, &flag)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Type_delete_attr(MPI_DATATYPE_NULL, key)) == MPI_ERR_TYPE);
    MPI_Comm_free_keyval(&of_comm);
    /* Named datatypes have attributes, too. */
    MPI_Type_set_attr(MPI_INT, key, place);
    MPI_Type_get_attr(MPI_INT, key, &value, &flag);
    CHECK(flag && value == place);
    MPI_Type_delete_attr(MPI_INT, key);
    deletions = 0;
    MPI_Type_free_keyval(&key);
    MPI_Type_free(&type);
    CHECK(key == MPI_KEYVAL_INVALID && deletions == 1);
}

static int told;
static void about_window(MPI_Win *win, int *code, ...) { (void)win, (void)code, told++; }
static void about_file(MPI_File *file, int *code, ...) { told += *file == MPI_FILE_NULL, *code = MPI_SUCCESS; }
static void about_comm(MPI_Comm *comm, int *code, ...) { told += class_of(*code) == MPI_ERR_TRUNCATE && *comm != MPI_COMM_NULL; }

/* There are no windows, but keys and error handlers for them. */
static void of_windows(void) {
    int key, flag;
    char *value;
    MPI_Errhandler handler;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, drop_of_window, &key, NULL);
    CHECK(key != MPI_KEYVAL_INVALID);
    CHECK(class_of(MPI_Win_set_attr(MPI_WIN_NULL, key, NULL)) == MPI_ERR_WIN);
    CHECK(class_of(MPI_Win_get_attr(MPI_WIN_NULL, key, &value, &flag)) == MPI_ERR_WIN);
    CHECK(class_of(MPI_Win_delete_attr(MPI_WIN_NULL, key)) == MPI_ERR_WIN);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)) == MPI_ERR_KEYVAL);
    MPI_Win_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Win_create_errhandler(about_window, &handler);
    CHECK(class_of(MPI_Win_set_errhandler(MPI_WIN_NULL, handler)) == MPI_ERR_WIN);
    CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)) == MPI_ERR_ARG);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    CHECK(class_of(MPI_Win_get_errhandler(MPI_WIN_NULL, &handler)) == MPI_ERR_WIN);
    CHECK(class_of(MPI_Win_call_errhandler(MPI_WIN_NULL, MPI_ERR_OTHER)) == MPI_ERR_WIN && told == 0);
}

/* MPI_FILE_NULL has the handler that errors of MPI_File_open go to: first, they are returned (MPI 5.0, 14.7). */
static void of_files(void) {
    MPI_Errhandler handler, found;
    MPI_File file;
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    CHECK(found == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&found);
    MPI_File_create_errhandler(about_file, &handler);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, handler) == MPI_SUCCESS);
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    CHECK(found == handler);
    MPI_Errhandler_free(&found);
    CHECK(found == MPI_ERRHANDLER_NULL);
    told = 0;
    CHECK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE) == MPI_SUCCESS && told == 1);
    MPI_File_open(MPI_COMM_SELF, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(told == 2);
    CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)) == MPI_ERR_ARG);
    MPI_Errhandler_free(&handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_File_open(MPI_COMM_SELF, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(told == 2);
}

static void error_handlers(void) {
    MPI_Errhandler handler, found, old;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(about_comm, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    /* It is told under the handle that the program has, and has to be freed as often. */
    MPI_Comm_get_errhandler(comm, &found);
    CHECK(found == handler);
    old = found;
    MPI_Errhandler_free(&found);
    CHECK(found == MPI_ERRHANDLER_NULL && MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    MPI_Errhandler_free(&handler);
    CHECK(class_of(MPI_Errhandler_free(&old)) == MPI_ERR_ERRHANDLER);
    /* It lives while an object has it, and what is told of it then is a handle to be freed. */
    MPI_Comm_get_errhandler(comm, &found);
    told = 0;
    CHECK(MPI_Comm_call_errhandler(comm, MPI_ERR_TRUNCATE) == MPI_SUCCESS && told == 1);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_call_errhandler(comm, MPI_ERR_TRUNCATE) == MPI_SUCCESS && told == 1);
    MPI_Comm_set_errhandler(comm, found);
    MPI_Errhandler_free(&found);
    MPI_Comm_call_errhandler(comm, MPI_ERR_TRUNCATE);
    CHECK(told == 2);
    MPI_Comm_free(&comm);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &found);
    CHECK(found == MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL)) == MPI_ERR_ERRHANDLER);
    CHECK(class_of(MPI_Comm_get_errhandler(MPI_COMM_NULL, &found)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_OTHER)) == MPI_ERR_COMM);
    handler = MPI_ERRHANDLER_NULL;
    CHECK(class_of(MPI_Errhandler_free(&handler)) == MPI_ERR_ERRHANDLER);
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME], longest[2 * MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm comm;
    MPI_Datatype type;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == 14);
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_SELF"));
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_name(comm, name, &length);
    CHECK(length == 0 && name[0] == 0);
    MPI_Comm_set_name(comm, "ours");
    MPI_Comm_get_name(comm, name, &length);
    CHECK(!strcmp(name, "ours") && length == 4);
    MPI_Comm_set_name(comm, longest);
    MPI_Comm_get_name(comm, name, &length);
    CHECK(length == MPI_MAX_OBJECT_NAME - 1 && strlen(name) == (size_t)length);
    MPI_Comm_free(&comm);
    MPI_Type_get_name(MPI_INT, name, &length);
    CHECK(!strcmp(name, "MPI_INT") && length == 7);
    MPI_Type_get_name(MPI_DOUBLE_INT, name, &length);
    CHECK(!strcmp(name, "MPI_DOUBLE_INT"));
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &length);
    CHECK(length == 0 && name[0] == 0);
    MPI_Type_set_name(type, "pair");
    MPI_Type_get_name(type, name, &length);
    CHECK(!strcmp(name, "pair") && length == 4);
    MPI_Type_free(&type);
    CHECK(class_of(MPI_Comm_set_name(MPI_COMM_NULL, "x")) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Type_set_name(MPI_DATATYPE_NULL, "x")) == MPI_ERR_TYPE);
}

static void infos(void) {
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY], value[32], longest[MPI_MAX_INFO_VAL + 1];
    int flag, count, length;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    MPI_Info_create(&info);
    MPI_Info_get_nkeys(info, &count);
    CHECK(count == 0);
    MPI_Info_set(info, "one", "first");
    MPI_Info_set(info, "two", "second");
    MPI_Info_set(info, "one", "other");
    MPI_Info_get_nkeys(info, &count);
    MPI_Info_get_nthkey(info, 1, key);
    CHECK(count == 2 && !strcmp(key, "two"));
    MPI_Info_get(info, "one", sizeof value - 1, value, &flag);
    CHECK(flag && !strcmp(value, "other"));
    MPI_Info_get(info, "one", 2, value, &flag);
    CHECK(flag && !strcmp(value, "ot"));
    MPI_Info_get_valuelen(info, "two", &length, &flag);
    CHECK(flag && length == 6);
    for (int room = 0; room < 8; room++) {
        /* The room counts the zero at the end, and so does the length that it is told. */
        strcpy(value, "untouched");
        length = room;
        MPI_Info_get_string(info, "one", &length, value, &flag);
        CHECK(flag && length == 6 && (room ? !strncmp(value, "other", room - 1) : !strcmp(value, "untouched")));
        CHECK(!room || strlen(value) == (size_t)(room < 6 ? room - 1 : 5));
    }
    length = 9;
    MPI_Info_get_string(info, "three", &length, value, &flag);
    CHECK(!flag && length == 9);
    MPI_Info_get(info, "three", 9, value, &flag);
    CHECK(!flag);
    MPI_Info_get_valuelen(info, "three", &length, &flag);
    CHECK(!flag && length == 9);
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "one");
    CHECK(class_of(MPI_Info_delete(info, "one")) == MPI_ERR_INFO_NOKEY);
    MPI_Info_get_nkeys(info, &count);
    CHECK(count == 1);
    MPI_Info_get_nkeys(copy, &count);
    MPI_Info_get(copy, "one", sizeof value - 1, value, &flag);
    CHECK(count == 2 && flag && !strcmp(value, "other"));
    CHECK(class_of(MPI_Info_set(info, longest, "x")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, "", "x")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, "x", longest)) == MPI_ERR_INFO_VALUE);
    CHECK(class_of(MPI_Info_get(info, longest, 1, value, &flag)) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_get_nthkey(info, 1, key)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_get_nthkey(info, -1, key)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_get_nkeys(MPI_INFO_NULL, &count)) == MPI_ERR_INFO);
    MPI_Info_free(&copy);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL && class_of(MPI_Info_free(&info)) == MPI_ERR_INFO);
    info = MPI_INFO_ENV;
    CHECK(class_of(MPI_Info_free(&info)) == MPI_ERR_INFO);
    MPI_Info_get(MPI_INFO_ENV, "thread_level", sizeof value - 1, value, &flag);
    CHECK(flag && !strncmp(value, "MPI_THREAD_", 11));
    MPI_Info_create_env(0, NULL, &info);
    MPI_Info_get(info, "arch", sizeof value - 1, value, &flag);
    CHECK(flag && value[0]);
    MPI_Info_free(&info);
}

static void sum(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)right)[i] += ((int *)left)[i];
}

static void sum_c(void *left, void *right, MPI_Count *count, MPI_Datatype *type) {
    CHECK(*type == MPI_INT);
    for (MPI_Count i = 0; i < *count; i++) ((int *)right)[i] += ((int *)left)[i];
}

static void operations(void) {
    MPI_Op op;
    int total, flag;
    struct { MPI_Op op; int commutes; } known[] = {{MPI_SUM, 1}, {MPI_MAXLOC, 1}, {MPI_LXOR, 1}, {MPI_REPLACE, 0}};
    for (int i = 0; i < 4; i++) {
        MPI_Op_commutative(known[i].op, &flag);
        CHECK(flag == known[i].commutes);
        op = known[i].op;
        CHECK(class_of(MPI_Op_free(&op)) == MPI_ERR_OP);
    }
    for (int large = 0; large < 2; large++) {
        if (large) MPI_Op_create_c(sum_c, 0, &op);
        else MPI_Op_create(sum, 0, &op);
        MPI_Op_commutative(op, &flag);
        MPI_Allreduce(&rank, &total, 1, MPI_INT, op, MPI_COMM_WORLD);
        CHECK(!flag && total == size * (size - 1) / 2);
        CHECK(MPI_Op_fromint(MPI_Op_toint(op)) == op);
        int one = 1, two = 2;
        MPI_Reduce_local(&one, &two, 1, MPI_INT, op);
        CHECK(two == 3);
        MPI_Reduce_local_c(&one, &two, 1, MPI_INT, op);
        CHECK(two == 4);
        MPI_Op_free(&op);
        CHECK(op == MPI_OP_NULL);
    }
    CHECK(class_of(MPI_Op_create(NULL, 1, &op)) == MPI_ERR_ARG && class_of(MPI_Op_create_c(NULL, 1, &op)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Op_commutative(MPI_OP_NULL, &flag)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Reduce_local(&total, &flag, 1, MPI_DOUBLE, MPI_BAND)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Reduce_local_c(&total, &flag, -1, MPI_INT, MPI_SUM)) == MPI_ERR_COUNT);
}

/* Handles as Fortran has them. The standard's own have the same values in both (MPI 5.0, 20.3). */
static void integers(void) {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Info info;
    MPI_Datatype type;
    MPI_Errhandler handler;
    MPI_Session session;
    MPI_Request request;
    int value;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Info_create(&info);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Comm_create_errhandler(about_comm, &handler);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
#define SAME(Kind, handle) CHECK(MPI_##Kind##_fromint(MPI_##Kind##_toint(handle)) == handle)
#define FIXED(Kind, handle)                                      \
    CHECK(MPI_##Kind##_toint(handle) == (int)(long)handle);      \
    SAME(Kind, handle)
    SAME(Comm, comm);
    SAME(Group, group);
    SAME(Info, info);
    SAME(Type, type);
    SAME(Errhandler, handler);
    SAME(Session, session);
    SAME(Request, request);
    FIXED(Comm, MPI_COMM_WORLD);
    FIXED(Comm, MPI_COMM_NULL);
    FIXED(Group, MPI_GROUP_EMPTY);
    FIXED(Info, MPI_INFO_ENV);
    FIXED(Type, MPI_DOUBLE);
    FIXED(Errhandler, MPI_ERRORS_RETURN);
    FIXED(Session, MPI_SESSION_NULL);
    FIXED(Request, MPI_REQUEST_NULL);
    FIXED(Message, MPI_MESSAGE_NO_PROC);
    FIXED(Op, MPI_SUM);
    FIXED(Win, MPI_WIN_NULL);
    FIXED(File, MPI_FILE_NULL);
    /* What is made from an integer is the object itself. */
    MPI_Comm same = MPI_Comm_fromint(MPI_Comm_toint(comm));
    MPI_Comm_compare(comm, same, &value);
    CHECK(value == MPI_IDENT);
    CHECK(class_of(MPI_Comm_size(MPI_Comm_fromint(0x7ffffff), &value)) == MPI_ERR_COMM);
    MPI_Request_free(&request);
    MPI_Session_finalize(&session);
    MPI_Errhandler_free(&handler);
    MPI_Type_free(&type);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    of_communicators();
    of_datatypes();
    of_windows();
    of_files();
    error_handlers();
    names();
    infos();
    operations();
    integers();
    MPI_Finalize();
    return 0;
}
