// What gSOAP's client and server agree upon: the mode of a packaging, its limits, and the matrix.

#include "../../native/times.h"
#include "soapH.h"

#define SERVICE "urn:fishplate:bench:matrix"

enum packaging { XML, DIME, MTOM };

static enum packaging packaging_named(const char *name) {
    if (!strcmp(name, "xml")) return XML;
    if (!strcmp(name, "dime")) return DIME;
    if (!strcmp(name, "mtom")) return MTOM;
    fail("the packaging is none of xml, dime, mtom", 0);
    return XML;
}

static void set_up(struct soap *soap, enum packaging packaging) {
    // XML_TREE spares the search for shared pointers, which also finds what to attach.
    soap_mode mode = SOAP_IO_KEEPALIVE;
    if (packaging == XML) mode |= SOAP_XML_TREE;
    if (packaging == DIME) mode |= SOAP_ENC_DIME;
    if (packaging == MTOM) mode |= SOAP_ENC_MTOM;
    soap_init2(soap, mode, mode);
    soap->max_keep_alive = 0x7fffffff;
    soap->maxoccurs = (size_t)1 << 30;
    soap->sndbuf = soap->rcvbuf = 0; // as the system scales them; 64 KiB would starve a long link
}

// Chunks spare the pass that counts bytes; a small message is faster in one piece. The size of
// attachments is known without a pass.
static void fit(struct soap *soap, size_t n) {
    if (!(soap->omode & SOAP_XML_TREE)) return;
    soap_clr_omode(soap, SOAP_IO);
    soap_set_omode(soap, n < 32 ? SOAP_IO_STORE : SOAP_IO_CHUNK);
}

// 24 random bits a number, so that it prints with eight or nine digits. Every client and server
// of this benchmark makes the same ones.
static float *numbers(size_t n) {
    float *made = malloc(n * n * sizeof(float) + 1);
    if (!made) fail("malloc", errno);
    uint64_t state = n;
    for (size_t i = 0; i < n * n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        made[i] = (float)(state >> 40) / 16777216.0f;
    }
    return made;
}

static struct m__rows rows_of(float *numbers, size_t n) {
    struct m__rows matrix = {(int)n, malloc(n * sizeof(struct m__row) + 1)};
    if (!matrix.row) fail("malloc", errno);
    for (size_t i = 0; i < n; i++) {
        matrix.row[i].__sizeitem = (int)n;
        matrix.row[i].item = numbers + i * n;
    }
    return matrix;
}

static struct xsd__base64Binary data_of(float *numbers, size_t n) {
    struct xsd__base64Binary data = {(unsigned char *)numbers, (int)(n * n * sizeof(float)), 0, 0, 0};
    data.type = "application/octet-stream"; // with a type it is attached
    return data;
}
