// gSOAP's client: client PACKAGING; does what ../drivers.py asks on stdin.

#include "setup.h"
#include "matrix.nsmap"

static enum packaging packaging;

// A matrix, sent or expected, in all the forms that it takes.
static struct { size_t n; float *numbers; struct m__rows rows; } ours;

static void take(size_t n) {
    if (ours.n == n) return;
    free(ours.rows.row);
    free(ours.numbers);
    ours.n = n;
    ours.numbers = numbers(n);
    ours.rows = rows_of(ours.numbers, n);
}

// The last answer as it came, and where a parse of it stands.
static struct { char *bytes; size_t length, room, at; int keeping; } answer;
static size_t (*receive)(struct soap *, char *, size_t);

static size_t receive_and_keep(struct soap *soap, char *into, size_t room) {
    size_t came = receive(soap, into, room);
    if (!answer.keeping) return came;
    while (answer.length + came > answer.room) {
        answer.room = answer.room ? answer.room * 2 : 1 << 20;
        if (!(answer.bytes = realloc(answer.bytes, answer.room))) fail("realloc", errno);
    }
    memcpy(answer.bytes + answer.length, into, came);
    answer.length += came;
    return came;
}

static size_t receive_again(struct soap *soap, char *into, size_t room) {
    (void)soap;
    size_t left = answer.length - answer.at, given = left < room ? left : room;
    memcpy(into, answer.bytes + answer.at, given);
    answer.at += given;
    return given;
}

static int equal(const struct m__rows *rows, const struct xsd__base64Binary *data) {
    size_t width = ours.n * sizeof(float);
    if (data && (size_t)data->__size != width * ours.n) return 0;
    if (data) return !memcmp(data->__ptr, ours.numbers, width * ours.n);
    if ((size_t)rows->__sizerow != ours.n) return 0;
    for (size_t i = 0; i < ours.n; i++) {
        const struct m__row *row = &rows->row[i];
        if ((size_t)row->__sizeitem != ours.n || memcmp(row->item, ours.rows.row[i].item, width)) return 0;
    }
    return 1;
}

// One call, or one parse of the kept answer; `same` says whether the numbers came back.
static int64_t once(struct soap *soap, const char *url, const char *operation, int *same) {
    struct m__echoResponse echoed;
    struct m__getMatrixResponse got;
    struct m__echoDataResponse echoed_data;
    struct m__getDataResponse got_data;
    int echo = !strcmp(operation, "echo"), parse = !strcmp(operation, "parse"), n = (int)ours.n;
    fit(soap, echo ? ours.n : 0);
    int64_t begin = now();
    if (packaging == XML) {
        if (parse) soap_recv_m__getMatrix(soap, &got);
        else if (echo) soap_call_m__echo(soap, url, "", ours.rows, &echoed);
        else soap_call_m__getMatrix(soap, url, "", n, &got);
    } else {
        if (parse) soap_recv_m__getData(soap, &got_data);
        else if (echo) soap_call_m__echoData(soap, url, "", data_of(ours.numbers, ours.n), &echoed_data);
        else soap_call_m__getData(soap, url, "", n, &got_data);
    }
    int64_t end = now();
    if (soap->error) {
        soap_print_fault(soap, stderr);
        exit(1);
    }
    if (same && packaging == XML) *same = equal(echo ? &echoed.matrix : &got.matrix, 0);
    else if (same) *same = equal(0, echo ? &echoed_data.data : &got_data.data);
    soap_destroy(soap);
    soap_end(soap);
    return end - begin;
}

static void keep_answer(struct soap *soap, const char *url) {
    answer.length = 0;
    answer.keeping = 1;
    once(soap, url, "getMatrix", 0);
    answer.keeping = 0;
}

static void parse_again(struct soap *soap) {
    soap->frecv = receive_again;
    answer.at = 0;
}

int main(int count, char **arguments) {
    if (count != 2) fail("client PACKAGING", 0);
    packaging = packaging_named(arguments[1]);
    struct soap calling, parsing;
    set_up(&calling, packaging);
    set_up(&parsing, packaging);
    receive = calling.frecv;
    calling.frecv = receive_and_keep;
    char url[256], operation[16];
    size_t n, repetitions;
    while (scanf("%255s %15s %zu %zu", url, operation, &n, &repetitions) == 4) {
        int same = 1, parse = !strcmp(operation, "parse");
        struct soap *soap = parse ? &parsing : &calling;
        take(n);
        if (parse) keep_answer(&calling, url);
        if (parse) parse_again(soap);
        if (!repetitions) once(soap, url, operation, &same);
        printf("{\"equal\": %s, \"seconds\": [", same ? "true" : "false");
        for (size_t i = 0; i < repetitions; i++) {
            if (parse) parse_again(soap);
            printf("%s%.9f", i ? ", " : "", (double)once(soap, url, operation, 0) / 1e9);
        }
        printf("]}\n");
        fflush(stdout);
    }
    return 0;
}
