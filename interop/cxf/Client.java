// Apache CXF against us: java Client ARITHMETIC_WSDL ECHO_WSDL PAYLOADS
// The packages `arithmetic` and `echo` are made by wsdl2java from the fetched WSDLs.

import java.net.URI;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import arithmetic.ArithmeticTest;
import echo.EchoFile;
import echo.EchoFilePortType;
import echo.FaultMessage;

import jakarta.activation.DataHandler;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.handler.MessageContext;
import jakarta.xml.ws.soap.MTOMFeature;

import org.apache.cxf.attachment.ByteDataSource;

public final class Client {
    private static final int[] SIZES = {0, 1, 8191, 8192, 8193, 1 << 20};
    private static int failed;

    interface Body {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        URL arithmeticWsdl = URI.create(arguments[0]).toURL();
        URL echoWsdl = URI.create(arguments[1]).toURL();
        Path payloads = Path.of(arguments[2]);

        ArithmeticTest arithmetic = new ArithmeticTest(arithmeticWsdl);
        check("call", () -> expect(arithmetic.getArithmeticTestSoap11().call(1, 2) == 3, "not 3"));
        check("soap12", () -> expect(arithmetic.getArithmeticTestSoap12().call(1, 2) == 3, "not 3"));

        EchoFile echo = new EchoFile(echoWsdl);
        for (boolean mtom : new boolean[] {true, false}) {
            EchoFilePortType port = echo.getEchoFileSoap11(new MTOMFeature(mtom));
            for (int size : SIZES) {
                byte[] sent = Files.readAllBytes(payloads.resolve(size + ".bin"));
                String mode = mtom ? "mtom " : "base64 ";
                check(mode + "call-file " + size, () -> same(port, mtom, port.call(file(sent)), sent));
                check(mode + "spawn-file " + size, () -> same(port, mtom, spawned(port, sent), sent));
            }
        }
        check("missing-job", () -> missingJob(echo.getEchoFileSoap11()));
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Exception problem) {
            failed++;
            System.out.println("not ok " + name + ": " + problem);
            problem.printStackTrace();
        }
    }

    private static void expect(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    private static DataHandler file(byte[] bytes) {
        return new DataHandler(new ByteDataSource(bytes, "application/octet-stream"));
    }

    private static DataHandler spawned(EchoFilePortType port, byte[] sent) throws Exception {
        String job = port.spawn(file(sent));
        while (port.running(job)) {
            Thread.sleep(20);
        }
        return port.results(job);
    }

    /** The bytes, and the packaging they came in. */
    private static void same(EchoFilePortType port, boolean mtom, DataHandler found, byte[] sent) throws Exception {
        byte[] bytes = found == null ? new byte[0] : found.getInputStream().readAllBytes();
        expect(Arrays.equals(bytes, sent), "other bytes: " + bytes.length + " of " + sent.length);
        String type = contentType(port);
        expect(type.startsWith("multipart/related") == mtom, "answered as " + type);
    }

    @SuppressWarnings("unchecked")
    private static String contentType(EchoFilePortType port) {
        Object headers = ((BindingProvider) port).getResponseContext().get(MessageContext.HTTP_RESPONSE_HEADERS);
        for (Map.Entry<String, List<String>> header : ((Map<String, List<String>>) headers).entrySet()) {
            if ("content-type".equalsIgnoreCase(header.getKey())) {
                return header.getValue().get(0);
            }
        }
        return "";
    }

    private static void missingJob(EchoFilePortType port) {
        String job = "0".repeat(32);
        try {
            port.results(job);
        } catch (FaultMessage fault) {
            expect(!fault.getMessage().isEmpty(), "the fault has no sentence");
            expect("NoSuchJob".equals(fault.getFaultInfo().getCode()), fault.getFaultInfo().getCode());
            expect(job.equals(fault.getFaultInfo().getJob()), "the job is not named");
            return;
        }
        throw new IllegalStateException("no fault");
    }
}
