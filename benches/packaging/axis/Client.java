// Axis' client: java Client xml|mime|dime; driven as Driver says.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

import javax.activation.DataHandler;
import javax.xml.namespace.QName;
import javax.xml.rpc.ParameterMode;

import org.apache.axis.AxisEngine;
import org.apache.axis.AxisFault;
import org.apache.axis.EngineConfiguration;
import org.apache.axis.Handler;
import org.apache.axis.Message;
import org.apache.axis.MessageContext;
import org.apache.axis.SimpleTargetedChain;
import org.apache.axis.client.Call;
import org.apache.axis.configuration.SimpleProvider;
import org.apache.axis.encoding.XMLType;
import org.apache.axis.encoding.ser.JAFDataHandlerDeserializerFactory;
import org.apache.axis.encoding.ser.JAFDataHandlerSerializerFactory;
import org.apache.axis.handlers.BasicHandler;
import org.apache.axis.transport.http.CommonsHTTPSender;
import org.apache.commons.httpclient.MultiThreadedHttpConnectionManager;

public final class Client implements Driver.Client {
    private static final String NAMESPACE = "urn:fishplate:bench:matrix";
    private static final QName HANDLER = new QName(NAMESPACE, "DataHandler");
    private static final QName FLOATS =
        new QName("http://schemas.xmlsoap.org/soap/encoding/", "Array");

    private final String packaging;
    private final Sender sender = new Sender();
    private final org.apache.axis.client.Service service =
        new org.apache.axis.client.Service(configuration(sender));
    private String url;
    private String keptFrom = "";

    Client(String packaging) {
        this.packaging = packaging;
        // As the server's configuration.
        service.getEngine().setOption(AxisEngine.PROP_DOMULTIREFS, false);
        service.getEngine().setOption(AxisEngine.PROP_SEND_XSI, false);
        service.getEngine().setOption(AxisEngine.PROP_DISABLE_PRETTY_XML, true);
    }

    public static void main(String[] arguments) throws Exception {
        Driver.drive(new Client(arguments[0]));
    }

    private static EngineConfiguration configuration(Handler sender) {
        SimpleProvider provider = new SimpleProvider();
        provider.deployTransport("http", new SimpleTargetedChain(sender));
        return provider;
    }

    @Override
    public void prepare(String url, String operation, int n) throws Exception {
        this.url = url;
        boolean parse = "parse".equals(operation);
        sender.again = false;
        if (parse && !keptFrom.equals(url + n)) {
            sender.keeping = true;
            call("getMatrix", n, null);
            sender.keeping = false;
            keptFrom = url + n;
        }
        sender.again = parse;
        if (!parse) {
            sender.bytes = null;
            keptFrom = "";
        }
    }

    @Override
    public float[][] call(String operation, int n, float[][] matrix) throws Exception {
        boolean echo = "echo".equals(operation);
        Call call = (Call) service.createCall();
        call.setTargetEndpointAddress(url);
        if ("xml".equals(packaging)) {
            call.setOperationName(new QName(NAMESPACE, echo ? "echo" : "getMatrix"));
            call.addParameter(echo ? "matrix" : "n", echo ? FLOATS : XMLType.XSD_INT,
                echo ? float[][].class : int.class, ParameterMode.IN);
            call.setReturnType(FLOATS, float[][].class);
            return (float[][]) call.invoke(new Object[] {echo ? (Object) matrix : n});
        }
        call.registerTypeMapping(DataHandler.class, HANDLER, JAFDataHandlerSerializerFactory.class,
            JAFDataHandlerDeserializerFactory.class);
        call.setProperty(Call.ATTACHMENT_ENCAPSULATION_FORMAT, "dime".equals(packaging)
            ? Call.ATTACHMENT_ENCAPSULATION_FORMAT_DIME : Call.ATTACHMENT_ENCAPSULATION_FORMAT_MIME);
        call.setOperationName(new QName(NAMESPACE, echo ? "echoData" : "getData"));
        call.addParameter(echo ? "data" : "n", echo ? HANDLER : XMLType.XSD_INT, ParameterMode.IN);
        call.setReturnType(HANDLER);
        Object sent = echo ? (Object) new DataHandler(new Bytes(Matrix.bytes(matrix))) : n;
        DataHandler answer = (DataHandler) call.invoke(new Object[] {sent});
        try (InputStream in = answer.getInputStream()) {
            return Matrix.rows(in.readAllBytes());
        } finally {
            call.getMessageContext().getResponseMessage().dispose(); // else its files stay
        }
    }

    /** Sends as Axis does on a connection that is kept; keeps an answer, or gives that again. */
    private static final class Sender extends BasicHandler {
        private final Handler http = new CommonsHTTPSender() {
            @Override
            protected void initialize() {
                super.initialize();
                // Before each call it would wait a millisecond whether the server closes.
                ((MultiThreadedHttpConnectionManager) connectionManager).getParams()
                    .setStaleCheckingEnabled(false);
            }
        };
        private boolean keeping;
        private boolean again;
        private byte[] bytes;
        private String type;

        @Override
        public void invoke(MessageContext context) throws AxisFault {
            if (keeping) {
                keep(context);
            }
            if (!keeping && !again) {
                http.invoke(context);
                return;
            }
            Message answer = new Message(new ByteArrayInputStream(bytes), false, type, null);
            answer.setMessageType(Message.RESPONSE);
            context.setResponseMessage(answer);
        }

        /** Axis hands an answer over part by part only, so it is fetched without Axis. */
        private void keep(MessageContext context) throws AxisFault {
            try {
                ByteArrayOutputStream request = new ByteArrayOutputStream();
                context.getRequestMessage().writeTo(request);
                HttpResponse<byte[]> answer = HttpClient.newHttpClient().send(
                    HttpRequest.newBuilder(URI.create(context.getStrProp(MessageContext.TRANS_URL)))
                        .header("Content-Type", "text/xml; charset=utf-8").header("SOAPAction", "\"\"")
                        .POST(HttpRequest.BodyPublishers.ofByteArray(request.toByteArray())).build(),
                    HttpResponse.BodyHandlers.ofByteArray());
                bytes = answer.body();
                type = answer.headers().firstValue("Content-Type").orElseThrow();
            } catch (Exception problem) {
                throw AxisFault.makeFault(problem);
            }
        }
    }
}
