// A service of gSOAP's own, called by us: server base64|mtom|dime ECHO_WSDL
// Prints its port. A request in another packaging is answered with a fault.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "Echo.nsmap"
#include "soapEchoService.h"

namespace {

std::string wsdl;
bool attached;
int encoding;
char octets[] = "application/octet-stream";

int describe(struct soap* soap) {
    soap_clr_omode(soap, encoding);
    soap_response(soap, SOAP_HTML);
    soap_send_raw(soap, wsdl.data(), wsdl.size());
    return soap_end_send(soap);
}

}  // namespace

int EchoService::call(const xsd__base64Binary& data, xsd__base64Binary& copy) {
    if ((data.id != nullptr) != attached) {
        return soap_senderfault(attached ? "not an attachment" : "an attachment", nullptr);
    }
    soap_set_omode(soap, encoding);
    copy = data;
    copy.id = copy.options = nullptr;
    copy.type = attached ? octets : nullptr;
    return SOAP_OK;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    const std::string packaging = arguments[1];
    std::ostringstream text;
    text << std::ifstream(arguments[2]).rdbuf();
    wsdl = text.str();
    attached = packaging != "base64";
    encoding = packaging == "mtom" ? SOAP_ENC_MTOM : packaging == "dime" ? SOAP_ENC_DIME : 0;
    EchoService service(SOAP_C_UTFSTRING | SOAP_IO_KEEPALIVE);
    service.soap->fget = describe;
    service.soap->bind_flags = SO_REUSEADDR;
    if (!soap_valid_socket(service.bind("127.0.0.1", 0, 100))) return 1;
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(service.soap->master, reinterpret_cast<sockaddr*>(&address), &length);
    std::cout << ntohs(address.sin_port) << std::endl;
    while (soap_valid_socket(service.accept())) {
        service.serve();
        service.destroy();
    }
    return 1;
}
