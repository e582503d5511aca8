// A service of gSOAP's own: soapcpp2 makes its skeleton and its WSDL from this.

//gsoap echo service name: Echo
//gsoap echo service namespace: urn:example:gsoap-echo
//gsoap echo service style: document
//gsoap echo service encoding: literal
//gsoap echo service location: http://127.0.0.1/

// What has an identity or a type is an attachment.
class xsd__base64Binary {
  public:
    unsigned char* __ptr;
    int __size;
    char *id, *type, *options;
};

//gsoap echo service method: call Gives back the bytes it gets.
//gsoap echo service method-action: call urn:example:gsoap-echo#call
int echo__call(xsd__base64Binary data, xsd__base64Binary& copy);
