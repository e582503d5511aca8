// Apache CXF against us: java Client ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL ECHO_SWA_WSDL ECHO_XDESCR_WSDL
// STREAM_WSDL STREAM_SWA_WSDL SETTLE_WSDL SMOOTH_WSDL PAYLOADS
// The packages `arithmetic`, `echo`, `matrices`, `echoswa`, `echoxdescr`, `streams`, `streamsswa`, `settling` and `smoothing` are made by wsdl2java from the fetched WSDLs.

import java.io.InputStream;
import java.net.URI;
import java.net.URL;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

import arithmetic.ArithmeticTest;
import echo.EchoFile;
import echo.EchoFilePortType;
import echo.FaultMessage;

import matrices.ArrayOfArrayOfFloat;
import matrices.ArrayOfFloat;
import matrices.Matrix;
import matrices.MatrixPortType;

import streams.Stream;
import streams.StreamPortType;

import jakarta.activation.DataHandler;
import jakarta.activation.FileDataSource;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.Holder;
import jakarta.xml.ws.handler.MessageContext;
import jakarta.xml.ws.soap.MTOMFeature;

import org.apache.cxf.attachment.ByteDataSource;

public final class Client {
    private static final int[] SIZES = {0, 1, 8191, 8192, 8193, 1 << 20};
    // This goes through `call` only.
    private static final int LARGE = 100_000_000;
    // Bytes of a file whose length nobody tells.
    private static final int STREAM = 5_000_001;
    private static final String XOP = "multipart/related; type=\"application/xop+xml\"";
    private static final String SWA = "multipart/related; type=\"text/xml\"";
    // Subnormal, largest, not a binary fraction, negative zero.
    private static final List<List<Float>> ROWS = List.of(
        List.of(0.1f, -0.0f, Float.MIN_VALUE), List.of(Float.MAX_VALUE, 16777216f, -Float.MIN_NORMAL));
    private static final List<List<Float>> SPECIAL = List.of(
        List.of(Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.NaN, 1f));
    private static int failed;

    interface Body {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        URL arithmeticWsdl = URI.create(arguments[0]).toURL();
        URL echoWsdl = URI.create(arguments[1]).toURL();
        URL matrixWsdl = URI.create(arguments[2]).toURL();
        URL swaWsdl = URI.create(arguments[3]).toURL();
        URL xdescrWsdl = URI.create(arguments[4]).toURL();
        URL streamWsdl = URI.create(arguments[5]).toURL();
        URL streamSwaWsdl = URI.create(arguments[6]).toURL();
        URL settleWsdl = URI.create(arguments[7]).toURL();
        URL smoothWsdl = URI.create(arguments[8]).toURL();
        Path payloads = Path.of(arguments[9]);

        ArithmeticTest arithmetic = new ArithmeticTest(arithmeticWsdl);
        check("call", () -> expect(arithmetic.getArithmeticTestSoap11().call(1, 2) == 3, "not 3"));
        check("soap12", () -> expect(arithmetic.getArithmeticTestSoap12().call(1, 2) == 3, "not 3"));

        EchoFile echo = new EchoFile(echoWsdl);
        files("mtom ", new Plain(echo.getEchoFileSoap11(new MTOMFeature(true))), XOP, payloads, LARGE);
        files("base64 ", new Plain(echo.getEchoFileSoap11()), "text/xml", payloads, LARGE);
        echoswa.EchoFile swa = new echoswa.EchoFile(swaWsdl);
        files("swa ", new Swa(swa.getEchoFileSwa()), SWA, payloads, LARGE);

        MatrixPortType matrix = new Matrix(matrixWsdl).getMatrixSoap11();
        check("array", () -> same(rows(echoed(matrix, array(ROWS))), ROWS));
        check("array-get", () -> same(rows(matrix.getMatrix(50)), numbers(payloads, 50)));
        check("array-special", () -> same(rows(echoed(matrix, array(SPECIAL))), SPECIAL));
        new References(xdescrWsdl, System.getenv("INTEROP_ORIGIN"), payloads).run();
        Stream stream = new Stream(streamWsdl);
        StreamPortType base64 = stream.getStreamSoap11();
        streams("base64 ", base64, base64::call);
        StreamPortType mtom = stream.getStreamSoap11(new MTOMFeature(true));
        streams("mtom ", mtom, mtom::call);
        streamsswa.StreamPortType swa11 = new streamsswa.Stream(streamSwaWsdl).getStreamSwa();
        streams("swa ", swa11, swa11::call);
        check("missing-job", () -> missingJob(echo.getEchoFileSoap11()));
        new Logins().run();
        new Workflows(settleWsdl, smoothWsdl).run();
        System.exit(failed == 0 ? 0 : 1);
    }

    static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Exception problem) {
            failed++;
            System.out.println("not ok " + name + ": " + problem);
            problem.printStackTrace();
        }
    }

    static void expect(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    /** The service, through stubs of either WSDL. */
    interface Echo {
        DataHandler call(DataHandler file) throws Exception;

        String spawn(DataHandler file) throws Exception;

        boolean running(String job) throws Exception;

        DataHandler results(String job) throws Exception;

        Object port();
    }

    private record Plain(EchoFilePortType port) implements Echo {
        public DataHandler call(DataHandler file) throws Exception {
            return port.call(file);
        }

        public String spawn(DataHandler file) throws Exception {
            return port.spawn(file);
        }

        public boolean running(String job) throws Exception {
            return port.running(job);
        }

        public DataHandler results(String job) throws Exception {
            return port.results(job);
        }
    }

    private record Swa(echoswa.EchoFilePortType port) implements Echo {
        public DataHandler call(DataHandler file) throws Exception {
            return port.call(file);
        }

        public String spawn(DataHandler file) throws Exception {
            return port.spawn(file);
        }

        public boolean running(String job) throws Exception {
            return port.running(job);
        }

        public DataHandler results(String job) throws Exception {
            return port.results(job);
        }
    }

    private static void files(String mode, Echo echo, String type, Path payloads, int largest) throws Exception {
        for (int size : SIZES) {
            byte[] sent = Files.readAllBytes(payloads.resolve(size + ".bin"));
            check(mode + "call-file " + size, () -> same(echo, type, echo.call(file(sent)), sent));
            check(mode + "spawn-file " + size, () -> same(echo, type, spawned(echo, sent), sent));
        }
        Path path = payloads.resolve(largest + ".bin");
        check(mode + "call-file " + largest, () -> {
            DataHandler found = echo.call(new DataHandler(new FileDataSource(path.toFile())));
            Path copy = Files.createTempFile("fishplate-interop-", ".bin");
            try (InputStream came = found.getInputStream()) {
                Files.copy(came, copy, StandardCopyOption.REPLACE_EXISTING);
                expect(Files.mismatch(copy, path) == -1, "other bytes");
            } finally {
                Files.delete(copy);
            }
            expect(contentType(echo).startsWith(type), "answered as " + contentType(echo));
        });
    }

    interface Giver {
        DataHandler call(long size) throws Exception;
    }

    /** A file whose length nobody tells, and one that breaks off. */
    private static void streams(String mode, Object port, Giver giver) throws Exception {
        Map<String, Object> context = ((BindingProvider) port).getRequestContext();
        URI address = URI.create((String) context.get(BindingProvider.ENDPOINT_ADDRESS_PROPERTY));
        check(mode + "stream", () -> {
            byte[] found = giver.call(STREAM).getInputStream().readAllBytes();
            expect(found.length == STREAM, found.length + " bytes");
            for (int at = 0; at < STREAM; at++) {
                expect((found[at] & 255) == ((long) at / 8 >> at % 8 * 8 & 255), "other bytes");
            }
        });
        check(mode + "stream-cut", () -> {
            String query = address.getRawQuery() == null ? "" : "?" + address.getRawQuery();
            String cutter = System.getenv("INTEROP_CUTTER") + address.getRawPath() + query;
            context.put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, cutter);
            int found;
            try {
                found = giver.call(STREAM).getInputStream().readAllBytes().length;
            } catch (Exception broken) {
                return;
            }
            expect(false, "what broke off passed for whole: " + found + " bytes");
        });
    }

    private static DataHandler file(byte[] bytes) {
        return new DataHandler(new ByteDataSource(bytes, "application/octet-stream"));
    }

    private static DataHandler spawned(Echo echo, byte[] sent) throws Exception {
        String job = echo.spawn(file(sent));
        while (echo.running(job)) {
            Thread.sleep(20);
        }
        return echo.results(job);
    }

    /** The bytes, and the packaging they came in. */
    private static void same(Echo echo, String type, DataHandler found, byte[] sent) throws Exception {
        byte[] bytes = found == null ? new byte[0] : found.getInputStream().readAllBytes();
        expect(Arrays.equals(bytes, sent), "other bytes: " + bytes.length + " of " + sent.length);
        expect(contentType(echo).startsWith(type), "answered as " + contentType(echo));
    }

    private static ArrayOfArrayOfFloat array(List<List<Float>> rows) {
        ArrayOfArrayOfFloat array = new ArrayOfArrayOfFloat();
        for (List<Float> row : rows) {
            ArrayOfFloat items = new ArrayOfFloat();
            items.getItem().addAll(row);
            array.getItem().add(items);
        }
        return array;
    }

    /** The argument and the result have one name, so they are one parameter. */
    private static ArrayOfArrayOfFloat echoed(MatrixPortType matrix, ArrayOfArrayOfFloat array) throws Exception {
        Holder<ArrayOfArrayOfFloat> both = new Holder<>(array);
        matrix.echo(both);
        return both.value;
    }

    private static List<List<Float>> rows(ArrayOfArrayOfFloat array) {
        return array.getItem().stream().map(ArrayOfFloat::getItem).toList();
    }

    /** What `getMatrix` gives. */
    private static List<List<Float>> numbers(Path payloads, int n) throws Exception {
        FloatBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(payloads.resolve("matrix.bin")))
            .order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        return IntStream.range(0, n).mapToObj(i ->
            IntStream.range(0, n).mapToObj(j -> numbers.get(i * n + j)).toList()).toList();
    }

    /** To the last bit: `equals` of Float tells zeros apart. */
    private static void same(List<List<Float>> found, List<List<Float>> wanted) {
        expect(found.equals(wanted), "found " + found + ", wanted " + wanted);
    }

    @SuppressWarnings("unchecked")
    private static String contentType(Echo echo) {
        Object headers = ((BindingProvider) echo.port()).getResponseContext().get(MessageContext.HTTP_RESPONSE_HEADERS);
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
