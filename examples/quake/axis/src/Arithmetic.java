/** The paper's synthetic application: it executes a very simple computation. With scope `Session` each session has one. */
public final class Arithmetic {
    /** What an application would keep for a caller: `-Dstate=BYTES`. */
    private final byte[] state = new byte[Integer.getInteger("state", 0)];

    public long add(long x, long y) {
        return x + y;
    }
}
