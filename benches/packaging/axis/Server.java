// Axis' server in an embedded Jetty: java Server HOST ROOT; prints its port. ROOT has
// `WEB-INF/server-config.wsdd`; `/xml`, `/mime` and `/dime` are its services.

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;

import javax.servlet.ServletException;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;

import org.apache.axis.AxisEngine;
import org.apache.axis.transport.http.AxisServlet;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public final class Server {
    private Server() {}

    public static void main(String[] arguments) throws Exception {
        org.eclipse.jetty.server.Server jetty =
            new org.eclipse.jetty.server.Server(new InetSocketAddress(arguments[0], 0));
        ServletContextHandler context = new ServletContextHandler();
        context.setResourceBase(arguments[1]);
        ServletHolder servlet = new ServletHolder(new Reader());
        servlet.setInitParameter(AxisEngine.ENV_ATTACHMENT_DIR, System.getProperty("java.io.tmpdir"));
        context.addServlet(servlet, "/*");
        jetty.setHandler(context);
        jetty.start();
        System.out.println(((ServerConnector) jetty.getConnectors()[0]).getLocalPort());
        jetty.join();
    }

    /** Axis reads DIME to its last record and not to the last chunk; Jetty then closes the connection. */
    private static final class Reader extends AxisServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response)
            throws IOException, ServletException {
            super.service(request, response);
            request.getInputStream().transferTo(OutputStream.nullOutputStream());
        }
    }
}
