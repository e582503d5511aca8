// Axis' own server, SimpleAxisServer, with its defaults: java Alone PORT DIRECTORY, likewise. Started by its own `main` it would
// listen at every address of the machine.

import java.net.InetAddress;
import java.net.ServerSocket;

import org.apache.axis.configuration.FileProvider;
import org.apache.axis.transport.http.SimpleAxisServer;

public final class Alone {
    private Alone() {}

    public static void main(String[] arguments) throws Exception {
        SimpleAxisServer server = new SimpleAxisServer();
        server.setMyConfig(new FileProvider(arguments[1] + "/WEB-INF", "server-config.wsdd"));
        int port = Integer.parseInt(arguments[0]);
        server.setServerSocket(new ServerSocket(port, 50, InetAddress.getLoopbackAddress()));
        server.run();
    }
}
