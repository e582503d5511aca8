// CXF's server in an embedded Jetty: java Server HOST; prints its port. `/xml` and `/mtom` are endpoints.

import java.net.InetSocketAddress;
import java.util.Map;

import jakarta.activation.DataHandler;
import jakarta.jws.WebService;
import jakarta.xml.ws.soap.SOAPBinding;

import org.apache.cxf.attachment.AttachmentDeserializer;
import org.apache.cxf.attachment.ByteDataSource;
import org.apache.cxf.jaxws.EndpointImpl;
import org.apache.cxf.transport.servlet.CXFNonSpringServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.ServerConnector;

public final class Server {
    /** In memory, as our matrices are: CXF would write attachments above 100 KiB to files. */
    static final Map<String, Object> IN_MEMORY =
        Map.of(AttachmentDeserializer.ATTACHMENT_MEMORY_THRESHOLD, Integer.toString(Integer.MAX_VALUE));

    @WebService(endpointInterface = "Matrices", targetNamespace = Matrices.NAMESPACE)
    public static final class Service implements Matrices {
        @Override
        public Rows echo(Rows matrix) {
            return matrix;
        }

        @Override
        public Rows getMatrix(int n) {
            return Rows.of(Matrix.kept(n));
        }

        @Override
        public DataHandler echoData(DataHandler data) {
            return data;
        }

        @Override
        public DataHandler getData(int n) {
            return handler(Matrix.bytes(Matrix.kept(n)));
        }
    }

    private Server() {}

    public static void main(String[] arguments) throws Exception {
        org.eclipse.jetty.server.Server jetty =
            new org.eclipse.jetty.server.Server(new InetSocketAddress(arguments[0], 0));
        CXFNonSpringServlet servlet = new CXFNonSpringServlet();
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(servlet), "/*");
        jetty.setHandler(context);
        jetty.start();
        for (String packaging : new String[] {"xml", "mtom"}) {
            EndpointImpl endpoint = new EndpointImpl(servlet.getBus(), new Service());
            endpoint.setProperties(IN_MEMORY);
            endpoint.publish("/" + packaging);
            ((SOAPBinding) endpoint.getBinding()).setMTOMEnabled("mtom".equals(packaging));
        }
        System.out.println(((ServerConnector) jetty.getConnectors()[0]).getLocalPort());
        jetty.join();
    }

    static DataHandler handler(byte[] bytes) {
        return new DataHandler(new ByteDataSource(bytes, "application/octet-stream"));
    }
}
