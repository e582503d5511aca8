// gSOAP's server: server PACKAGING HOST THREADS; prints its port. Each thread accepts for itself and
// keeps its connection for as long as the client does, which is what gSOAP recommends for speed.

#include <netinet/in.h>
#include <pthread.h>

#include "setup.h"
#include "matrix.nsmap"

#define SIZES 16

static pthread_mutex_t accepting = PTHREAD_MUTEX_INITIALIZER, making = PTHREAD_MUTEX_INITIALIZER;
static enum packaging packaging;
static SOAP_SOCKET listening;

// Made once for each size: what is measured is the message, not the making of numbers.
static struct made { size_t n; float *numbers; struct m__rows rows; } kept[SIZES];

static const struct made *made(size_t n) {
    struct made *found = 0;
    pthread_mutex_lock(&making);
    for (int i = 0; i < SIZES && !found; i++) {
        if (!kept[i].numbers) {
            kept[i].n = n;
            kept[i].numbers = numbers(n);
            kept[i].rows = rows_of(kept[i].numbers, n);
        }
        if (kept[i].n == n) found = &kept[i];
    }
    pthread_mutex_unlock(&making);
    return found;
}

int m__echo(struct soap *soap, struct m__rows matrix, struct m__echoResponse *answer) {
    fit(soap, (size_t)matrix.__sizerow);
    answer->matrix = matrix;
    return SOAP_OK;
}

int m__getMatrix(struct soap *soap, int n, struct m__getMatrixResponse *answer) {
    const struct made *matrix = made((size_t)n);
    if (!matrix) return soap_receiver_fault(soap, "too many sizes", 0);
    fit(soap, matrix->n);
    answer->matrix = matrix->rows;
    return SOAP_OK;
}

int m__echoData(struct soap *soap, struct xsd__base64Binary data, struct m__echoDataResponse *answer) {
    (void)soap;
    answer->data = data;
    answer->data.id = answer->data.options = 0;
    answer->data.type = "application/octet-stream";
    return SOAP_OK;
}

int m__getData(struct soap *soap, int n, struct m__getDataResponse *answer) {
    const struct made *matrix = made((size_t)n);
    if (!matrix) return soap_receiver_fault(soap, "too many sizes", 0);
    answer->data = data_of(matrix->numbers, matrix->n);
    return SOAP_OK;
}

int m__add(struct soap *soap, int x, int y, int *sum) {
    fit(soap, 0);
    *sum = x + y;
    return SOAP_OK;
}

static void *serve(void *unused) {
    (void)unused;
    struct soap *soap = soap_new();
    set_up(soap, packaging);
    soap->master = listening;
    for (;;) {
        pthread_mutex_lock(&accepting);
        SOAP_SOCKET accepted = soap_accept(soap);
        pthread_mutex_unlock(&accepting);
        if (!soap_valid_socket(accepted)) continue;
        soap_serve(soap);
        soap_destroy(soap);
        soap_end(soap);
    }
}

int main(int count, char **arguments) {
    if (count != 4) fail("server PACKAGING HOST THREADS", 0);
    packaging = packaging_named(arguments[1]);
    struct soap soap;
    set_up(&soap, packaging);
    soap.bind_flags = SO_REUSEADDR;
    listening = soap_bind(&soap, arguments[2], 0, 128);
    if (!soap_valid_socket(listening)) fail("bind", soap.errnum);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getsockname(listening, (struct sockaddr *)&address, &length)) fail("getsockname", errno);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int threads = atoi(arguments[3]);
    pthread_t thread;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, 0, serve, 0)) fail("pthread_create", errno);
    pthread_join(thread, 0);
}
