// gSOAP's plugin wsse against us: wsse ARITHMETIC_WSDL
// A program of its own: the plugin takes gSOAP's library with OpenSSL, and stubs that know its header.

#include <cstdlib>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>

#include "arithmetic_testSoap11.nsmap"
#include "soaparithmetic_testSoap11Proxy.h"
#include "wsseapi.h"

namespace {

int failed = 0;

// Logs in so, and adds: what came of it.
int log_in(const std::string& url, const std::function<void(soap*)>& how, std::string& told) {
    arithmetic_testSoap11Proxy service(url.c_str());
    how(service.soap);
    _ns1__call request;
    _ns1__callResponse response;
    request.x = 1;
    request.y = 2;
    const int code = service.call(&request, response);
    char text[1024] = "";
    if (code != SOAP_OK) service.soap_sprint_fault(text, sizeof text);
    told = code == SOAP_OK ? std::to_string(response.result) : text;
    return code;
}

void check(const std::string& name, const std::function<void(soap*)>& how, int wanted) {
    const std::string wsdl = std::getenv("INTEROP_LOGIN_URL");
    std::string told;
    const int code = log_in(wsdl.substr(0, wsdl.find('?')), how, told);
    const bool good = code == wanted && (wanted != SOAP_OK || told == "3");
    failed += !good;
    std::cout << (good ? "ok " : "not ok ") << name << (good ? "" : ": " + told) << std::endl;
}

}  // namespace

int main() {
    const char* password = std::getenv("INTEROP_LOGIN_PASSWORD");
    const char* token = std::getenv("INTEROP_LOGIN_DIGEST_TOKEN");
    const auto text = [&](soap* soap) {
        soap_wsse_add_UsernameTokenText(soap, nullptr, "alice", password);
    };
    const auto digest = [&](soap* soap) {
        soap_wsse_add_UsernameTokenDigest(soap, nullptr, "alice", token);
    };
    check("login-text", text, SOAP_OK);
    check("login-digest", digest, SOAP_OK);
    password = token = "wrong";
    check("login-text-refused", text, 401);
    check("login-digest-refused", digest, 401);
    return failed ? 1 : 0;
}
