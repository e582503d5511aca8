// gSOAP against us: client ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL STREAM_WSDL PAYLOADS
// The classes are made by wsdl2h and soapcpp2 from the fetched WSDLs.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "arithmetic_testSoap11.nsmap"
#include "soaparithmetic_testSoap11Proxy.h"
#include "soapecho_fileSoap11Proxy.h"
#include "soapmatrixSoap11Proxy.h"
#include "soapstreamSoap11Proxy.h"

using Arithmetic = arithmetic_testSoap11Proxy;
using Echo = echo_fileSoap11Proxy;
using Matrix = matrixSoap11Proxy;
using Stream = streamSoap11Proxy;
using Rows = std::vector<std::vector<float>>;

namespace {

const int SIZES[] = {0, 1, 8191, 8192, 8193, 1 << 20};
const int LARGE = 100000000;  // goes through `call` only
const int STREAM = 5000001;  // bytes of a file whose length nobody tells
int failed = 0;

void check(const std::string& name, const std::function<void()>& body) {
    try {
        body();
        std::cout << "ok " << name << std::endl;
    } catch (const std::exception& problem) {
        ++failed;
        std::cout << "not ok " << name << ": " << problem.what() << std::endl;
    }
}

void expect(bool good, const std::string& what) {
    if (!good) throw std::runtime_error(what);
}

template <class Proxy>
void answered(Proxy& proxy, int code) {
    if (code == SOAP_OK) return;
    char text[1024] = "";
    proxy.soap_sprint_fault(text, sizeof text);
    throw std::runtime_error(text);
}

// A server's address is its WSDL's without the query.
std::string address(const std::string& wsdl) { return wsdl.substr(0, wsdl.find('?')); }

// soapcpp2 speaks SOAP 1.2 where a WSDL offers both; which it is stands in the table of namespaces.
std::vector<Namespace> soap11() {
    std::vector<Namespace> table;
    for (const Namespace* entry = namespaces; entry->id; ++entry) table.push_back(*entry);
    table[0].ns = "http://schemas.xmlsoap.org/soap/envelope/";
    table[1].ns = "http://schemas.xmlsoap.org/soap/encoding/";
    table.push_back(Namespace{});
    return table;
}

void add(const std::string& url, short version) {
    static const std::vector<Namespace> table = soap11();
    Arithmetic arithmetic(url.c_str());
    if (version == 1) soap_set_namespaces(arithmetic.soap, table.data());
    _ns1__call request;
    _ns1__callResponse response;
    request.x = 1;
    request.y = 2;
    answered(arithmetic, arithmetic.call(&request, response));
    expect(response.result == 3, "found " + std::to_string(response.result));
    expect(arithmetic.soap->version == version, "SOAP of another version");
}

xsd__base64Binary file(const std::string& bytes, bool attached) {
    xsd__base64Binary data;
    data.__ptr = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    data.__size = static_cast<int>(bytes.size());
    // A type makes it an attachment; without one it is base64.
    data.type = attached ? const_cast<char*>("application/octet-stream") : nullptr;
    data.id = data.options = nullptr;
    return data;
}

std::string bytes(const xsd__base64Binary& data) {
    return data.__ptr ? std::string(reinterpret_cast<char*>(data.__ptr), data.__size) : std::string();
}

std::string called(Echo& echo, const std::string& sent, bool attached) {
    _ns2__call request;
    _ns2__callResponse response;
    request.data = file(sent, attached);
    answered(echo, echo.call(&request, response));
    // It came as an attachment if it has an identity.
    expect((response.copy.id != nullptr) == attached, attached ? "not attached" : "attached");
    return bytes(response.copy);
}

std::string spawned(Echo& echo, const std::string& sent, bool attached) {
    _ns2__spawn spawn;
    _ns2__spawnResponse accepted;
    spawn.data = file(sent, attached);
    answered(echo, echo.spawn(&spawn, accepted));
    const std::string job = accepted.job;
    for (;;) {
        _ns2__running running;
        _ns2__runningResponse state;
        running.job = job;
        answered(echo, echo.running(&running, state));
        if (!state.running) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    _ns2__results results;
    _ns2__resultsResponse response;
    results.job = job;
    answered(echo, echo.results(&results, response));
    return bytes(response.copy);
}

std::string payload(const std::string& payloads, int size) {
    std::ifstream input(payloads + "/" + std::to_string(size) + ".bin", std::ios::binary);
    std::string bytes(size, 0);
    input.read(bytes.data(), size);
    expect(input.gcount() == size, "a payload is missing");
    return bytes;
}

void files(const std::string& url, const std::string& payloads, const std::string& mode, int encoding) {
    const bool attached = encoding != 0;
    Echo echo(url.c_str(), encoding | SOAP_C_UTFSTRING);
    for (int size : SIZES) {
        const std::string sent = payload(payloads, size);
        check(mode + "call-file " + std::to_string(size),
              [&] { expect(called(echo, sent, attached) == sent, "other bytes"); });
        check(mode + "spawn-file " + std::to_string(size),
              [&] { expect(spawned(echo, sent, attached) == sent, "other bytes"); });
        echo.destroy();
    }
    const std::string sent = payload(payloads, LARGE);
    check(mode + "call-file " + std::to_string(LARGE),
          [&] { expect(called(echo, sent, attached) == sent, "other bytes"); });
}

std::string streamed(const std::string& url, int encoding) {
    Stream stream(url.c_str(), encoding | SOAP_C_UTFSTRING);
    _ns4__call request;
    _ns4__callResponse response;
    request.n = STREAM;
    answered(stream, stream.call(&request, response));
    expect((response.data.id != nullptr) == (encoding != 0), "of another packaging");
    return bytes(response.data);
}

void streams(const std::string& url, const std::string& mode, int encoding) {
    // With nothing attached gSOAP asks for no DIME, but by the address.
    const std::string query = encoding == SOAP_ENC_DIME ? "?binding=dime" : "";
    check(mode + "stream", [&] {
        const std::string found = streamed(url + query, encoding);
        expect(found.size() == STREAM, std::to_string(found.size()) + " bytes");
        for (size_t at = 0; at < found.size(); ++at)
            expect(static_cast<unsigned char>(found[at]) == (at / 8 >> at % 8 * 8 & 255), "other bytes");
    });
    check(mode + "stream-cut", [&] {
        std::string found;
        try {
            found = streamed(std::string(std::getenv("INTEROP_CUTTER")) + "/stream" + query, encoding);
        } catch (const std::exception&) {
            return;
        }
        expect(false, "what broke off passed for whole: " + std::to_string(found.size()) + " bytes");
    });
}

Rows rows(const ns3__ArrayOfArrayOfFloat* found) {
    expect(found, "no matrix");
    Rows rows;
    for (const ns3__ArrayOfFloat* row : found->item) rows.push_back(row->item);
    return rows;
}

void same(const Rows& found, const Rows& wanted) {
    expect(found.size() == wanted.size(), std::to_string(found.size()) + " rows");
    for (size_t i = 0; i < wanted.size(); ++i) {
        expect(found[i].size() == wanted[i].size(), std::to_string(found[i].size()) + " columns");
        for (size_t j = 0; j < wanted[i].size(); ++j) {
            const float one = found[i][j], other = wanted[i][j];
            const bool equal = std::isnan(one) ? std::isnan(other) : std::memcmp(&one, &other, 4) == 0;
            expect(equal, "found " + std::to_string(one) + ", wanted " + std::to_string(other));
        }
    }
}

void array(const std::string& url, const Rows& sent) {
    Matrix matrix(url.c_str());
    std::vector<ns3__ArrayOfFloat> items(sent.size());
    ns3__ArrayOfArrayOfFloat whole;
    for (size_t i = 0; i < sent.size(); ++i) {
        items[i].item = sent[i];
        whole.item.push_back(&items[i]);
    }
    _ns3__echo request;
    _ns3__echoResponse response;
    request.matrix = &whole;
    answered(matrix, matrix.echo(&request, response));
    same(rows(response.matrix), sent);
}

void array_get(const std::string& url, const std::string& payloads) {
    const int n = 50;
    Matrix matrix(url.c_str());
    _ns3__getMatrix request;
    _ns3__getMatrixResponse response;
    request.n = n;
    answered(matrix, matrix.getMatrix(&request, response));
    Rows wanted(n, std::vector<float>(n));
    std::ifstream numbers(payloads + "/matrix.bin", std::ios::binary);
    for (std::vector<float>& row : wanted) numbers.read(reinterpret_cast<char*>(row.data()), n * sizeof(float));
    expect(numbers.good(), "matrix.bin is missing");
    same(rows(response.matrix), wanted);
}

void missing_job(const std::string& url) {
    Echo echo(url.c_str());
    _ns2__results request;
    _ns2__resultsResponse response;
    request.job = std::string(32, '0');
    expect(echo.results(&request, response) != SOAP_OK, "no fault");
    expect(echo.soap_fault_string() && *echo.soap_fault_string(), "the fault has no sentence");
    expect(echo.soap->fault, "no SOAP fault");
    const SOAP_ENV__Detail* detail = echo.soap->fault->SOAP_ENV__Detail;
    expect(detail && detail->ns2__faultDetail, "the fault has no detail");
    expect(detail->ns2__faultDetail->code == "NoSuchJob", "code " + detail->ns2__faultDetail->code);
    expect(detail->ns2__faultDetail->job && *detail->ns2__faultDetail->job == request.job, "the job is not named");
}

// The ways in which gSOAP logs in: docs/guides/logins.md shows them.
void log_in(const std::function<void(soap*)>& how, bool known) {
    const std::string url = address(std::getenv("INTEROP_LOGIN_URL"));
    Arithmetic service(url.c_str());
    how(service.soap);
    _ns1__call request;
    _ns1__callResponse response;
    request.x = 1;
    request.y = 2;
    const int code = service.call(&request, response);
    if (known) {
        answered(service, code);
        expect(response.result == 3, "not 3");
    } else {
        expect(code == 401, "the status is " + std::to_string(code));
    }
}

void logins() {
    const char* password = std::getenv("INTEROP_LOGIN_PASSWORD");
    const char* token = std::getenv("INTEROP_LOGIN_TOKEN");
    const auto basic = [&](soap* soap) {
        soap->userid = "alice";
        soap->passwd = password;
    };
    const auto bearer = [&](soap* soap) {
        soap->bearer = token;
    };
    check("login-basic", [&] { log_in(basic, true); });
    check("login-bearer", [&] { log_in(bearer, true); });
    password = "wrong";
    check("login-refused", [&] { log_in(basic, false); });
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 6) return 2;
    const std::string arithmetic_url = address(arguments[1]);
    const std::string echo_url = address(arguments[2]);
    const std::string matrix_url = address(arguments[3]);
    const std::string stream_url = address(arguments[4]);
    const std::string payloads = arguments[5];
    check("call", [&] { add(arithmetic_url, 2); });
    check("soap11", [&] { add(arithmetic_url, 1); });
    files(echo_url, payloads, "base64 ", 0);
    files(echo_url, payloads, "mtom ", SOAP_ENC_MTOM);
    files(echo_url, payloads, "dime ", SOAP_ENC_DIME);
    streams(stream_url, "base64 ", 0);
    streams(stream_url, "mtom ", SOAP_ENC_MTOM);
    streams(stream_url, "dime ", SOAP_ENC_DIME);
    const float huge = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    check("array", [&] { array(matrix_url, {{0.1f, -0.0f, tiny}, {huge, 16777216, -1.1754944e-38f}}); });
    check("array-get", [&] { array_get(matrix_url, payloads); });
    check("array-special", [&] { array(matrix_url, {{infinity, -infinity, nan, 1}}); });
    check("missing-job", [&] { missing_job(echo_url); });
    logins();
    return failed ? 1 : 0;
}
