// gSOAP and a domain that runs: domain URL DOMAIN CREDENTIAL, of its rank 1.
// What is stored there with tag 7 comes back reversed with tag 8. The classes are made by wsdl2h and soapcpp2 from the fetched WSDL.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "domainSoap11.nsmap"
#include "soapdomainSoap11Proxy.h"

namespace {

void expect(bool good, const std::string& what) {
    if (good) return;
    std::cerr << what << std::endl;
    std::exit(1);
}

void refused(domainSoap11Proxy& rank, int code, const std::string& why) {
    char text[1024] = "";
    rank.soap_sprint_fault(text, sizeof text);
    expect(code != SOAP_OK && std::string(text).find(why) != std::string::npos, why + ": " + text);
}

void answered(domainSoap11Proxy& rank, int code) {
    if (code == SOAP_OK) return;
    char text[1024] = "";
    rank.soap_sprint_fault(text, sizeof text);
    expect(false, text);
}

}  // namespace

int main(int, char** arguments) {
    domainSoap11Proxy rank(arguments[1], SOAP_C_UTFSTRING | SOAP_ENC_MTOM | SOAP_IO_KEEPALIVE);
    std::vector<unsigned char> data(200000);
    for (size_t at = 0; at < data.size(); ++at) data[at] = static_cast<unsigned char>(at * 7 + at / 256);

    std::string name = "gSOAP";
    xsd__base64Binary attached;
    attached.soap_default(rank.soap);
    attached.__ptr = data.data();
    attached.__size = static_cast<int>(data.size());
    attached.type = const_cast<char*>("application/octet-stream");
    _ns1__store message;
    message.soap_default(rank.soap);
    message.domain = arguments[2];
    message.fromRank = 0;
    message.toRank = 1;
    message.tag = 7;
    message.sequence = 1;
    message.client = &name;
    message.data = &attached;
    _ns1__storeResponse stored;
    refused(rank, rank.store(&message, stored), "credential is missing");
    const std::string credential = std::string("Authorization: Bearer ") + arguments[3];
    const auto store = [&] {
        rank.soap->http_extra_header = credential.c_str();
        return rank.store(&message, stored);
    };
    answered(rank, store());
    refused(rank, store(), "came before");

    int tag = 8;
    double wait = 30;
    _ns1__receive wanted;
    wanted.soap_default(rank.soap);
    wanted.domain = arguments[2];
    wanted.tag = &tag;
    wanted.wait = &wait;
    _ns1__receiveResponse received;
    rank.soap->http_extra_header = credential.c_str();
    answered(rank, rank.receive(&wanted, received));
    expect(received.received && received.data, "nothing was received");
    std::reverse(data.begin(), data.end());
    const unsigned char* got = received.data->__ptr;
    expect(static_cast<size_t>(received.data->__size) == data.size()
               && std::equal(data.begin(), data.end(), got),
           "it is not what was stored, reversed");
    std::cout << "received" << std::endl;
}
