// CXF's client: java Client xml|mtom; driven as Driver says.

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.logging.Logger;

import javax.xml.namespace.QName;

import jakarta.activation.DataHandler;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.soap.SOAPBinding;

import org.apache.cxf.endpoint.ConduitSelector;
import org.apache.cxf.endpoint.UpfrontConduitSelector;
import org.apache.cxf.frontend.ClientProxy;
import org.apache.cxf.jaxws.JaxWsProxyFactoryBean;
import org.apache.cxf.message.Message;
import org.apache.cxf.message.MessageImpl;
import org.apache.cxf.phase.AbstractPhaseInterceptor;
import org.apache.cxf.phase.Phase;
import org.apache.cxf.transport.AbstractConduit;
import org.apache.cxf.transport.http.HTTPConduit;
import org.apache.cxf.ws.addressing.EndpointReferenceType;

public final class Client implements Driver.Client {
    private final boolean attached;
    private final Matrices port;
    private final org.apache.cxf.endpoint.Client client;
    private final ConduitSelector network;
    private final Keeper keeper = new Keeper();
    private String keptFrom = "";

    Client(boolean attached) {
        this.attached = attached;
        JaxWsProxyFactoryBean factory = new JaxWsProxyFactoryBean();
        factory.setServiceClass(Matrices.class);
        factory.setServiceName(new QName(Matrices.NAMESPACE, "ServiceService"));
        factory.setAddress("http://localhost/");
        factory.setProperties(new HashMap<>(Server.IN_MEMORY));
        port = (Matrices) factory.create();
        ((SOAPBinding) ((BindingProvider) port).getBinding()).setMTOMEnabled(attached);
        client = ClientProxy.getClient(port);
        client.getInInterceptors().add(keeper);
        ((HTTPConduit) client.getConduit()).getClient().setReceiveTimeout(0);
        network = client.getConduitSelector();
    }

    public static void main(String[] arguments) throws Exception {
        Driver.drive(new Client("mtom".equals(arguments[0])));
    }

    @Override
    public void prepare(String url, String operation, int n) {
        ((BindingProvider) port).getRequestContext().put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, url);
        client.setConduitSelector(network);
        boolean parse = "parse".equals(operation);
        if (parse && !keptFrom.equals(url + n)) {
            keeper.keeping = true;
            call("getMatrix", n, null);
            keeper.keeping = false;
            keptFrom = url + n;
        }
        if (parse) {
            Memory conduit = new Memory(keeper);
            conduit.setMessageObserver(client);
            ConduitSelector memory = new UpfrontConduitSelector(conduit);
            memory.setEndpoint(client.getEndpoint());
            client.setConduitSelector(memory);
        } else {
            keeper.bytes = null;
            keptFrom = "";
        }
    }

    @Override
    public float[][] call(String operation, int n, float[][] matrix) {
        boolean echo = "echo".equals(operation);
        if (!attached) {
            return (echo ? port.echo(Matrices.Rows.of(matrix)) : port.getMatrix(n)).matrix();
        }
        DataHandler answer = echo ? port.echoData(Server.handler(Matrix.bytes(matrix))) : port.getData(n);
        try (InputStream in = answer.getInputStream()) {
            return Matrix.rows(in.readAllBytes());
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** Keeps an answer as it came. */
    private static final class Keeper extends AbstractPhaseInterceptor<Message> {
        private boolean keeping;
        private byte[] bytes;
        private String type;

        Keeper() {
            super(Phase.RECEIVE);
        }

        @Override
        public void handleMessage(Message message) {
            if (!keeping) {
                return;
            }
            try (InputStream in = message.getContent(InputStream.class)) {
                bytes = in.readAllBytes();
            } catch (IOException problem) {
                throw new IllegalStateException(problem);
            }
            type = (String) message.get(Message.CONTENT_TYPE);
            message.setContent(InputStream.class, new ByteArrayInputStream(bytes));
        }
    }

    /** Answers every request with what was kept. */
    private static final class Memory extends AbstractConduit {
        private final Keeper keeper;

        Memory(Keeper keeper) {
            super(new EndpointReferenceType());
            this.keeper = keeper;
        }

        @Override
        public void prepare(Message message) {
            message.setContent(OutputStream.class, OutputStream.nullOutputStream());
        }

        @Override
        public void close(Message message) throws IOException {
            super.close(message);
            if (message != message.getExchange().getOutMessage()) {
                return;
            }
            Message answer = new MessageImpl();
            answer.setExchange(message.getExchange());
            answer.put(Message.CONTENT_TYPE, keeper.type);
            answer.put(Message.RESPONSE_CODE, 200);
            answer.put(Message.PROTOCOL_HEADERS, Map.of());
            answer.setContent(InputStream.class, new ByteArrayInputStream(keeper.bytes));
            incomingObserver.onMessage(answer);
        }

        @Override
        protected Logger getLogger() {
            return Logger.getLogger(Memory.class.getName());
        }
    }
}
