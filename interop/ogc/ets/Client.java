import java.io.IOException;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.opengis.cite.ogcapiprocesses10.TestNGController;

/**
 * Starts the suite: Client SCHEMAS OUTPUT PROPERTIES. The standard's schemas, which it fetches from schemas.opengis.net, it is given
 * from the directory SCHEMAS, so that it runs without the internet.
 */
public class Client {
    private static final String PUBLISHED = "/ogcapi/processes/part1/1.0/openapi/schemas/";

    public static void main(String[] arguments) throws Exception {
        Path schemas = Paths.get(arguments[0]);
        URL.setURLStreamHandlerFactory(protocol -> switch (protocol) {
            case "http", "https" -> new Handler(schemas, system(protocol));
            default -> null;
        });
        TestNGController.main(new String[] {"-o", arguments[1], arguments[2]});
    }

    private static URLStreamHandler system(String protocol) {
        try {
            Class<?> handler = Class.forName("sun.net.www.protocol." + protocol + ".Handler");
            return (URLStreamHandler) handler.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static class Handler extends URLStreamHandler {
        private final Path schemas;
        private final URLStreamHandler system;

        Handler(Path schemas, URLStreamHandler system) {
            this.schemas = schemas;
            this.system = system;
        }

        @Override
        protected URLConnection openConnection(URL url) throws IOException {
            if (url.getHost().equals("schemas.opengis.net") && url.getPath().startsWith(PUBLISHED)) {
                Path schema = schemas.resolve(url.getPath().substring(PUBLISHED.length())).normalize();
                if (schema.startsWith(schemas) && Files.exists(schema)) {
                    return schema.toUri().toURL().openConnection();
                }
            }
            return new URL(null, url.toString(), system).openConnection();
        }

        @Override
        protected int getDefaultPort() {
            return 80;
        }
    }
}
