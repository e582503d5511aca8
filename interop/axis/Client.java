// Axis 1.4 against us: java Client ECHO_SWA_WSDL ECHO_DIME_WSDL PAYLOADS
// The package `echofileswa` is made by WSDL2Java from the fetched WSDL. It makes a URI of a swaRef,
// and of base64Binary an array of bytes; a file in DIME or in SwA as Axis itself understands it is an
// argument of type DataHandler of a Call, whose element refers to the attachment by href.

import java.io.InputStream;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Hashtable;
import java.util.Map;
import java.util.UUID;

import javax.activation.DataHandler;
import javax.activation.FileDataSource;
import javax.xml.namespace.QName;
import javax.xml.rpc.ParameterMode;

import org.apache.axis.AxisEngine;
import org.apache.axis.MessageContext;
import org.apache.axis.attachments.AttachmentPart;
import org.apache.axis.client.Call;
import org.apache.axis.client.Service;
import org.apache.axis.constants.Style;
import org.apache.axis.constants.Use;
import org.apache.axis.encoding.XMLType;
import org.apache.axis.encoding.ser.JAFDataHandlerDeserializerFactory;
import org.apache.axis.encoding.ser.JAFDataHandlerSerializerFactory;
import org.apache.axis.transport.http.HTTPConstants;
import org.apache.axis.types.URI;

import echofileswa.EchoFileLocator;
import echofileswa.EchoFilePortType;
import echofileswa.FaultDetail;

public final class Client {
    private static final int[] SIZES = {0, 1, 8191, 8192, 8193, 1 << 20};
    private static final int LARGE = 100_000_000; // goes through `call` only
    private static final String NAMESPACE = "urn:fishplate:echo-file";
    private static final QName DATA_HANDLER = new QName("http://xml.apache.org/xml-soap", "DataHandler");
    // Axis writes larger files in several DIME records, and forgets their headers in Content-Length;
    // these have to be sent without a Content-Length.
    private static final int DIME_CHUNK = 1 << 20;
    private static int failed;

    interface Body {
        void run() throws Exception;
    }

    /** The service, with files as attachments. */
    interface Echo {
        DataHandler call(Path file) throws Exception;

        String spawn(Path file) throws Exception;

        DataHandler results(String job) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Path payloads = Path.of(arguments[2]);
        EchoFileLocator service = new EchoFileLocator();
        String swa = arguments[0].replace("wsdl&", "");
        String dime = arguments[1].replace("wsdl&", "");
        String either = swa.substring(0, swa.indexOf('?'));
        EchoFilePortType port = service.getEchoFileSwa(new URL(swa));

        Echo href = new Calls(either, Call.ATTACHMENT_ENCAPSULATION_FORMAT_MIME);
        files("swa ", href, port, false, payloads);
        files("swaref ", new Stubs((org.apache.axis.client.Stub) port), port, true, payloads);
        files("dime ", new Calls(dime, Call.ATTACHMENT_ENCAPSULATION_FORMAT_DIME), port, true, payloads);
        check("missing-job", () -> missingJob(port));
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void files(String mode, Echo echo, EchoFilePortType port, boolean spawns, Path payloads) {
        for (int size : SIZES) {
            Path sent = payloads.resolve(size + ".bin");
            check(mode + "call-file " + size, () -> same(echo.call(sent), sent));
            if (spawns) {
                check(mode + "spawn-file " + size, () -> same(spawned(echo, port, sent), sent));
            }
        }
        Path sent = payloads.resolve(LARGE + ".bin");
        check(mode + "call-file " + LARGE, () -> same(echo.call(sent), sent));
    }

    private static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Exception problem) {
            failed++;
            System.out.println("not ok " + name + ": " + problem.toString().lines().findFirst().orElse(""));
            problem.printStackTrace();
        }
    }

    private static void expect(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    private static DataHandler spawned(Echo echo, EchoFilePortType port, Path sent) throws Exception {
        String job = echo.spawn(sent);
        while (port.running(job)) {
            Thread.sleep(20);
        }
        return echo.results(job);
    }

    private static void same(DataHandler found, Path sent) throws Exception {
        Path copy = Files.createTempFile("fishplate-interop-", ".bin");
        try (InputStream came = found.getInputStream()) {
            Files.copy(came, copy, StandardCopyOption.REPLACE_EXISTING);
            expect(Files.mismatch(copy, sent) == -1, "other bytes");
        } finally {
            Files.delete(copy);
        }
    }

    private static DataHandler file(Path path) {
        return new DataHandler(new FileDataSource(path.toFile()));
    }

    /** Files by `href`: in MIME as SOAP with Attachments has it, or in DIME. */
    private record Calls(String address, String encapsulation) implements Echo {
        public DataHandler call(Path file) throws Exception {
            return (DataHandler) invoke("call", "data", DATA_HANDLER, DataHandler.class, file(file), "copy",
                DATA_HANDLER, DataHandler.class);
        }

        public String spawn(Path file) throws Exception {
            return (String) invoke("spawn", "data", DATA_HANDLER, DataHandler.class, file(file), "job",
                XMLType.XSD_STRING, String.class);
        }

        public DataHandler results(String job) throws Exception {
            return (DataHandler) invoke("results", "job", XMLType.XSD_STRING, String.class, job, "copy",
                DATA_HANDLER, DataHandler.class);
        }

        private Object invoke(String operation, String input, QName inputType, Class<?> inputClass, Object value,
                String output, QName outputType, Class<?> outputClass) throws Exception {
            Call call = (Call) new Service().createCall();
            call.setTargetEndpointAddress(address);
            call.setOperationName(new QName(NAMESPACE, operation));
            call.setOperationStyle(Style.WRAPPED);
            call.setOperationUse(Use.LITERAL);
            call.setEncodingStyle(null);
            call.setProperty(Call.SEND_TYPE_ATTR, Boolean.FALSE);
            call.setProperty(AxisEngine.PROP_DOMULTIREFS, Boolean.FALSE);
            call.setUseSOAPAction(true);
            call.setSOAPActionURI(NAMESPACE + "#" + operation);
            call.registerTypeMapping(DataHandler.class, DATA_HANDLER, JAFDataHandlerSerializerFactory.class,
                JAFDataHandlerDeserializerFactory.class, false);
            call.addParameter(new QName(NAMESPACE, input), inputType, inputClass, ParameterMode.IN);
            call.setReturnType(outputType, outputClass);
            call.setReturnQName(new QName(NAMESPACE, output));
            call.setProperty(Call.ATTACHMENT_ENCAPSULATION_FORMAT, encapsulation);
            boolean dime = encapsulation.equals(Call.ATTACHMENT_ENCAPSULATION_FORMAT_DIME);
            if (dime && value instanceof DataHandler file && file.getDataSource() instanceof FileDataSource source
                    && source.getFile().length() > DIME_CHUNK) {
                call.setProperty(MessageContext.HTTP_TRANSPORT_VERSION, HTTPConstants.HEADER_PROTOCOL_V11);
                call.setProperty(HTTPConstants.REQUEST_HEADERS, new Hashtable<>(Map.of(
                    HTTPConstants.HEADER_TRANSFER_ENCODING, HTTPConstants.HEADER_TRANSFER_ENCODING_CHUNKED)));
            }
            return call.invoke(new Object[] {value});
        }
    }

    /** Files by swaRef, as WS-I's Attachments Profile has it. */
    private record Stubs(org.apache.axis.client.Stub stub) implements Echo {
        public DataHandler call(Path file) throws Exception {
            return attached(port().call(attach(file)));
        }

        public String spawn(Path file) throws Exception {
            return port().spawn(attach(file));
        }

        public DataHandler results(String job) throws Exception {
            stub.clearAttachments();
            return attached(port().results(job));
        }

        private EchoFilePortType port() {
            return (EchoFilePortType) stub;
        }

        private URI attach(Path file) throws Exception {
            AttachmentPart part = new AttachmentPart(file(file));
            part.setContentId(UUID.randomUUID() + "@axis");
            stub.clearAttachments();
            stub.addAttachment(part);
            return new URI("cid:" + part.getContentId());
        }

        private DataHandler attached(URI reference) throws Exception {
            for (Object found : stub.getAttachments()) {
                AttachmentPart part = (AttachmentPart) found;
                if (reference.toString().equals("cid:" + part.getContentId())) {
                    return part.getDataHandler();
                }
            }
            throw new IllegalStateException("no attachment " + reference);
        }
    }

    private static void missingJob(EchoFilePortType port) throws Exception {
        String job = "0".repeat(32);
        try {
            port.results(job);
        } catch (FaultDetail fault) {
            expect(!fault.getFaultString().isEmpty(), "the fault has no sentence");
            expect("NoSuchJob".equals(fault.getCode()), fault.getCode());
            expect(job.equals(fault.getJob()), "the job is not named");
            return;
        }
        throw new IllegalStateException("no fault");
    }
}
