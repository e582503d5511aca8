// The ways in which CXF logs in: docs/guides/logins.md shows them.

import java.net.URI;
import java.net.URL;
import java.util.List;
import java.util.Map;

import arithmetic.ArithmeticTest;
import arithmetic.ArithmeticTestPortType;

import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.handler.MessageContext;
import jakarta.xml.ws.soap.SOAPFaultException;

import javax.security.auth.callback.CallbackHandler;

import org.apache.cxf.configuration.security.AuthorizationPolicy;
import org.apache.cxf.frontend.ClientProxy;
import org.apache.cxf.transport.http.HTTPConduit;
import org.apache.cxf.ws.security.wss4j.WSS4JOutInterceptor;
import org.apache.wss4j.common.ext.WSPasswordCallback;

final class Logins {
    private final String password = told("PASSWORD");
    private final String token = told("TOKEN");
    private final String digestToken = told("DIGEST_TOKEN");
    private final ArithmeticTest service;

    Logins() throws Exception {
        URL url = URI.create(told("URL")).toURL();
        service = new ArithmeticTest(url);
    }

    void run() {
        Client.check("login-basic", () -> calls(basic(port(), password)));
        Client.check("login-bearer", () -> calls(bearer(port())));
        Client.check("login-text", () -> calls(text(port(), password)));
        Client.check("login-digest", () -> calls(digest(port())));
        Client.check("login-refused", () -> refused(text(port(), "wrong")));
    }

    private ArithmeticTestPortType port() {
        return service.getArithmeticTestSoap11();
    }

    private ArithmeticTestPortType basic(ArithmeticTestPortType port, String password) {
        AuthorizationPolicy login = new AuthorizationPolicy();
        login.setAuthorizationType("Basic");
        login.setUserName("alice");
        login.setPassword(password);
        ((HTTPConduit) ClientProxy.getClient(port).getConduit()).setAuthorization(login);
        return port;
    }

    private ArithmeticTestPortType bearer(ArithmeticTestPortType port) {
        Map<String, List<String>> headers = Map.of("Authorization", List.of("Bearer " + token));
        ((BindingProvider) port).getRequestContext().put(MessageContext.HTTP_REQUEST_HEADERS, headers);
        return port;
    }

    private ArithmeticTestPortType text(ArithmeticTestPortType port, String password) {
        CallbackHandler handler = callbacks -> ((WSPasswordCallback) callbacks[0]).setPassword(password);
        ClientProxy.getClient(port).getOutInterceptors().add(new WSS4JOutInterceptor(Map.of(
            "action", "UsernameToken", "user", "alice", "passwordType", "PasswordText",
            "passwordCallbackRef", handler)));
        return port;
    }

    private ArithmeticTestPortType digest(ArithmeticTestPortType port) {
        CallbackHandler handler = callbacks -> ((WSPasswordCallback) callbacks[0]).setPassword(digestToken);
        ClientProxy.getClient(port).getOutInterceptors().add(new WSS4JOutInterceptor(Map.of(
            "action", "UsernameToken Timestamp", "user", "alice", "passwordType", "PasswordDigest",
            "passwordCallbackRef", handler)));
        return port;
    }

    private static void calls(ArithmeticTestPortType port) throws Exception {
        // Twice: each message has a token of its own.
        if (port.call(1, 2) != 3 || port.call(2, 3) != 5) {
            throw new IllegalStateException("other numbers");
        }
    }

    private static void refused(ArithmeticTestPortType port) throws Exception {
        // Else it takes the status for an error of the transport, and reads no fault.
        ((BindingProvider) port).getRequestContext().put(HTTPConduit.NO_IO_EXCEPTIONS, true);
        try {
            port.call(1, 2);
        } catch (SOAPFaultException problem) {
            String code = problem.getFault().getFaultCodeAsQName().getLocalPart();
            if (code.equals("FailedAuthentication") && problem.getMessage().contains("password")) {
                return;
            }
            throw problem;
        }
        throw new IllegalStateException("it was let in");
    }

    private static String told(String name) {
        return System.getenv("INTEROP_LOGIN_" + name);
    }
}
