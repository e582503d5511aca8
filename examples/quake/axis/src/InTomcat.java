// Axis in an embedded Tomcat with its defaults: java InTomcat PORT DIRECTORY, which has `WEB-INF/server-config.wsdd`.

import java.io.File;

import org.apache.axis.transport.http.AxisServlet;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;

public final class InTomcat {
    private InTomcat() {}

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[1]).getAbsoluteFile();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(directory.getPath());
        Connector connector = new Connector();
        connector.setPort(Integer.parseInt(arguments[0]));
        connector.setProperty("address", "127.0.0.1");
        tomcat.setConnector(connector);
        Context context = tomcat.addContext("/axis", directory.getPath());
        Tomcat.addServlet(context, "axis", new AxisServlet());
        context.addServletMappingDecoded("/services/*", "axis");
        tomcat.start();
        tomcat.getServer().await();
    }
}
