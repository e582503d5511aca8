// CXF with its defaults in an embedded Jetty: java Server PORT

import java.net.InetSocketAddress;

import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;

import org.apache.cxf.jaxws.EndpointImpl;
import org.apache.cxf.transport.servlet.CXFNonSpringServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;

public final class Server {
    /** The same computation as the other systems'. */
    @WebService(targetNamespace = "urn:quake")
    public static final class Arithmetic {
        @WebResult(name = "addReturn")
        public long add(@WebParam(name = "x") long x, @WebParam(name = "y") long y) {
            return x + y;
        }
    }

    private Server() {}

    public static void main(String[] arguments) throws Exception {
        org.eclipse.jetty.server.Server jetty = new org.eclipse.jetty.server.Server(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        CXFNonSpringServlet servlet = new CXFNonSpringServlet();
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(servlet), "/*");
        jetty.setHandler(context);
        jetty.start();
        new EndpointImpl(servlet.getBus(), new Arithmetic()).publish("/arithmetic");
        jetty.join();
    }
}
