// The service as gSOAP sees it: the matrix as elements, and as data that gSOAP attaches.
// soapcpp2 makes the stubs, the skeletons and the WSDL (which zeep reads) from this file.

//gsoap m service name:      matrix
//gsoap m service port:      http://localhost/
//gsoap m service namespace: urn:fishplate:bench:matrix
//gsoap m service style:     document
//gsoap m service encoding:  literal
//gsoap m schema namespace:  urn:fishplate:bench:matrix
//gsoap m schema form:       qualified

typedef float xsd__float;
typedef int xsd__int;

struct xsd__base64Binary {
    unsigned char *__ptr;
    int __size;
    char *id, *type, *options; // with these, soapcpp2 makes it data that may be attached
};

struct m__row {
    int __sizeitem 0;
    xsd__float *item 0;
};

struct m__rows {
    int __sizerow 0;
    struct m__row *row 0;
};

int m__echo(struct m__rows matrix, struct m__echoResponse { struct m__rows matrix; } *answer);
int m__getMatrix(xsd__int n, struct m__getMatrixResponse { struct m__rows matrix; } *answer);
int m__echoData(struct xsd__base64Binary data,
                struct m__echoDataResponse { struct xsd__base64Binary data; } *answer);
int m__getData(xsd__int n, struct m__getDataResponse { struct xsd__base64Binary data; } *answer);
int m__add(xsd__int x, xsd__int y, xsd__int *sum);
