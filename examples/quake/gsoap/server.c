// gSOAP's server as its guide has it: server PORT THREADS; each thread accepts for itself and keeps a connection for as long as the
// client does.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "arithmetic.nsmap"
#include "soapH.h"

static pthread_mutex_t accepting = PTHREAD_MUTEX_INITIALIZER;
static SOAP_SOCKET listening;

int q__add(struct soap *soap, LONG64 x, LONG64 y, LONG64 *sum) {
    (void)soap;
    *sum = x + y;
    return SOAP_OK;
}

// After each request: `soap_serve` returns with the connection only, and would keep what each request took until then.
static int clean(struct soap *soap) {
    soap_destroy(soap);
    soap_end(soap);
    return SOAP_OK;
}

static void *serve(void *unused) {
    (void)unused;
    struct soap *soap = soap_new1(SOAP_IO_KEEPALIVE);
    soap->master = listening;
    soap->max_keep_alive = 0x7fffffff;
    soap->fserveloop = clean;
    for (;;) {
        pthread_mutex_lock(&accepting);
        SOAP_SOCKET accepted = soap_accept(soap);
        pthread_mutex_unlock(&accepting);
        if (!soap_valid_socket(accepted)) continue;
        soap_serve(soap);
        clean(soap);
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "server PORT THREADS\n");
        return 2;
    }
    struct soap *soap = soap_new();
    soap->bind_flags = SO_REUSEADDR;
    listening = soap_bind(soap, "127.0.0.1", atoi(arguments[1]), 128);
    if (!soap_valid_socket(listening)) {
        soap_print_fault(soap, stderr);
        return 1;
    }
    pthread_t thread;
    for (int i = atoi(arguments[2]); i > 0; i--)
        if (pthread_create(&thread, NULL, serve, NULL) != 0) return 1;
    pthread_join(thread, NULL);
}
