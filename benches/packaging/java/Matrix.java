// The numbers of an n by n matrix: the same in every client and server of the benchmark.

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.ConcurrentHashMap;

public final class Matrix {
    private static final ConcurrentHashMap<Integer, float[][]> MADE = new ConcurrentHashMap<>();

    private Matrix() {}

    /** Made once for each size: a server measures the message, not the making of numbers. */
    public static float[][] kept(int n) {
        return MADE.computeIfAbsent(n, Matrix::make);
    }

    /** 24 random bits a number, so that it prints with eight or nine digits. */
    public static float[][] make(int n) {
        float[][] rows = new float[n][n];
        long state = n;
        for (float[] row : rows) {
            for (int i = 0; i < n; i++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                row[i] = (state >>> 40) / 16777216.0f;
            }
        }
        return rows;
    }

    /** As attachments carry it: little-endian, row by row. */
    public static byte[] bytes(float[][] rows) {
        int n = rows.length;
        ByteBuffer made = ByteBuffer.allocate(4 * n * n).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < n; i++) {
            made.position(4 * n * i);
            made.asFloatBuffer().put(rows[i]);
        }
        return made.array();
    }

    public static float[][] rows(byte[] bytes) {
        int n = (int) Math.round(Math.sqrt(bytes.length / 4));
        float[][] rows = new float[n][n];
        ByteBuffer from = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < n; i++) {
            from.position(4 * n * i);
            from.asFloatBuffer().get(rows[i]);
        }
        return rows;
    }
}
