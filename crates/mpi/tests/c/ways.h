/* What collective operations move, and their three ways. */
enum { MOST = 16, ROOM = MOST * MOST };

static int mine[ROOM], all[ROOM];

/* The element `at` of what `from` sends. */
static inline int value(int from, int at) { return 100 * from + at; }

static inline void put(int *to, int count, int from) {
    for (int i = 0; i < count; i++) to[i] = value(from, i);
}

/* Whether these are a rank's elements, from `begin` on. */
static inline int are(const int *got, int count, int from, int begin) {
    for (int i = 0; i < count; i++)
        if (got[i] != value(from, begin + i)) return 0;
    return 1;
}

static inline void blank(void) { memset(all, -1, sizeof all); }

/* Whether nothing was received from here on. */
static inline int is_blank(const int *got) {
    for (; got < all + ROOM; got++)
        if (*got != -1) return 0;
    return 1;
}

/* Blocks of different lengths lie apart; some are empty: how long the i-th is, and where. */
static inline int length(int i) { return i % 3; }
static inline int place(int i) { return 4 * i + 1; }

/* An operation blocking, non-blocking, and persistent, started again and again.
   `before` prepares the buffers, and `after` is what must hold of them then. */
#define WAYS(Name, name, before, after, ...)                                                      \
    do {                                                                                          \
        MPI_Request request;                                                                      \
        before;                                                                                   \
        CHECK(FORM(Name)(__VA_ARGS__) == MPI_SUCCESS && (after));                                 \
        before;                                                                                   \
        CHECK(FORM(I##name)(__VA_ARGS__, &request) == MPI_SUCCESS);                               \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                    \
        CHECK(request == MPI_REQUEST_NULL && (after));                                            \
        CHECK(FORM(Name##_init)(__VA_ARGS__, MPI_INFO_NULL, &request) == MPI_SUCCESS);            \
        for (int turn = 0; turn < 2; turn++) {                                                    \
            before;                                                                               \
            MPI_Start(&request);                                                                  \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                                                \
            CHECK(request != MPI_REQUEST_NULL && (after));                                        \
        }                                                                                         \
        MPI_Request_free(&request);                                                               \
    } while (0)

/* What is wrong, in each way. */
#define FAILS(class, Name, name, ...)                                                             \
    do {                                                                                          \
        MPI_Request request;                                                                      \
        CHECK(class_of(FORM(Name)(__VA_ARGS__)) == class);                                        \
        CHECK(class_of(FORM(I##name)(__VA_ARGS__, &request)) == class);                           \
        CHECK(class_of(FORM(Name##_init)(__VA_ARGS__, MPI_INFO_NULL, &request)) == class);        \
    } while (0)
