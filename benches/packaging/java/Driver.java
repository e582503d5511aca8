// A client of the benchmark in Java: does what ../drivers.py asks on stdin.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.StringJoiner;

public final class Driver {
    /** One stack's client, with one packaging. */
    public interface Client {
        /** Before the first of some calls, not timed: connects; keeps an answer for `parse`. */
        void prepare(String url, String operation, int n) throws Exception;

        /** One call, timed, with all conversions between floats and what travels. */
        float[][] call(String operation, int n, float[][] matrix) throws Exception;
    }

    private Driver() {}

    public static void drive(Client client) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        float[][] matrix = new float[0][0];
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" +");
            String operation = words[1];
            int n = Integer.parseInt(words[2]);
            int repetitions = Integer.parseInt(words[3]);
            if (n != matrix.length) {
                matrix = Matrix.make(n);
            }
            client.prepare(words[0], operation, n);
            boolean equal = repetitions > 0 || Arrays.deepEquals(client.call(operation, n, matrix), matrix);
            StringJoiner seconds = new StringJoiner(", ", "[", "]");
            for (int i = 0; i < repetitions; i++) {
                long begin = System.nanoTime();
                client.call(operation, n, matrix);
                seconds.add(Double.toString((System.nanoTime() - begin) / 1e9));
            }
            System.out.println("{\"equal\": " + equal + ", \"seconds\": " + seconds + "}");
        }
        System.exit(0);
    }
}
