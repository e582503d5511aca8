import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import mpi.Intracomm;
import mpi.MPI;

/** Program ... SOCKET: what program.c does, with mpiJava's API; `objects` as algorithm sends a matrix as one object, else an array of doubles. */
public class Program {
    static final int WINDOW = 10; // messages of a Ping*Pong
    static Intracomm world;
    static int rank, size;

    /** A turn: buffers, and how they are told to the library. */
    static class Turn {
        final int n, count;
        final boolean objects;
        final double[] data, got;
        final Object[] object, gotten;

        Turn(int n, boolean objects, boolean gathers) {
            this.n = n;
            this.objects = objects;
            count = n * n;
            data = begun(rank, count);
            got = new double[objects ? 0 : gathers ? count * size : count];
            object = new Object[] {rowsOf(rank, n)};
            gotten = new Object[gathers ? size : 1];
        }

        void send(boolean back, int to) {
            if (objects) world.Send(back ? gotten : object, 0, 1, MPI.OBJECT, to, 0);
            else world.Send(back ? got : data, 0, count, MPI.DOUBLE, to, 0);
        }

        void receive(int from) {
            if (objects) world.Recv(gotten, 0, 1, MPI.OBJECT, from, 0);
            else world.Recv(got, 0, count, MPI.DOUBLE, from, 0);
        }

        /** One sends so many messages, the other returns all of them. */
        void thereAndBack(int messages) {
            int partner = rank ^ 1;
            for (int way = 0; partner < size && way < 2; way++)
                for (int i = 0; i < messages; i++)
                    if (rank % 2 == way) send(way == 1, partner);
                    else receive(partner);
        }

        void matrix() {
            int block = count / size;
            for (int owner = 0; owner < size; owner++)
                if (owner == rank) {
                    Object[] part = {Arrays.copyOfRange(data, rank * block, (rank + 1) * block)};
                    for (int to = (rank + 1) % size; to != rank; to = (to + 1) % size)
                        if (objects) world.Send(part, 0, 1, MPI.OBJECT, to, 0);
                        else world.Send(data, rank * block, block, MPI.DOUBLE, to, 0);
                } else if (objects) {
                    world.Recv(gotten, 0, 1, MPI.OBJECT, owner, 0);
                } else {
                    world.Recv(data, owner * block, block, MPI.DOUBLE, owner, 0);
                }
        }

        void run(String operation) {
            switch (operation) {
                case "pingpong" -> thereAndBack(1);
                case "ping*pong" -> thereAndBack(WINDOW);
                case "matrix" -> matrix();
                case "broadcast" -> {
                    if (objects) world.Bcast(object, 0, 1, MPI.OBJECT, 0);
                    else world.Bcast(data, 0, count, MPI.DOUBLE, 0);
                }
                case "gather" -> {
                    if (objects) world.Gather(object, 0, 1, MPI.OBJECT, gotten, 0, 1, MPI.OBJECT, 0);
                    else world.Gather(data, 0, count, MPI.DOUBLE, got, 0, count, MPI.DOUBLE, 0);
                }
                case "barrier" -> world.Barrier();
                case "reduce" -> world.Reduce(data, 0, got, 0, count, MPI.DOUBLE, MPI.SUM, 0);
                case "allreduce" -> world.Allreduce(data, 0, got, 0, count, MPI.DOUBLE, MPI.SUM);
                default -> throw new IllegalArgumentException(operation);
            }
        }

        /** Whether this rank has what the operation should give. */
        boolean isRight(String operation) {
            double[] sum = new double[count];
            for (int from = 0; from < size; from++) {
                double[] part = begun(from, count);
                for (int i = 0; i < count; i++) sum[i] += part[i];
            }
            switch (operation) {
                case "pingpong": case "ping*pong":
                    if ((rank ^ 1) >= size) return true;
                    return objects ? Arrays.deepEquals((double[][]) gotten[0], rowsOf(rank & ~1, n)) : Arrays.equals(got, begun(rank & ~1, count));
                case "broadcast":
                    return objects ? Arrays.deepEquals((double[][]) object[0], rowsOf(0, n)) : Arrays.equals(data, begun(0, count));
                case "gather":
                    for (int from = 0; rank == 0 && from < size; from++) {
                        double[] block = objects ? null : Arrays.copyOfRange(got, from * count, (from + 1) * count);
                        if (objects ? !Arrays.deepEquals((double[][]) gotten[from], rowsOf(from, n)) : !Arrays.equals(block, begun(from, count))) return false;
                    }
                    return true;
                case "matrix":
                    for (int i = 0; !objects && i < count / size * size; i++)
                        if (data[i] != i / (count / size) + i % 1000) return false;
                    return true;
                case "reduce": case "allreduce":
                    return operation.equals("reduce") && rank != 0 || Arrays.equals(got, sum);
                default:
                    return true;
            }
        }
    }

    /** The numbers that a rank begins with. */
    static double[] begun(int rank, int count) {
        double[] numbers = new double[count];
        for (int i = 0; i < count; i++) numbers[i] = rank + i % 1000;
        return numbers;
    }

    static double[][] rowsOf(int rank, int n) {
        double[] numbers = begun(rank, n * n);
        double[][] rows = new double[n][];
        for (int row = 0; row < n; row++) rows[row] = Arrays.copyOfRange(numbers, row * n, (row + 1) * n);
        return rows;
    }

    /** Does a turn; the first repetition wakes everybody, and does not count. */
    static String take(String operation, boolean objects, int n, int repetitions) {
        Turn turn = new Turn(n, objects, operation.equals("gather"));
        boolean pairs = operation.startsWith("ping"), barrier = operation.equals("barrier");
        boolean reports = operation.equals("matrix") || operation.equals("broadcast") || operation.equals("allreduce");
        byte[] one = new byte[1], all = new byte[size];
        long[] took = new long[repetitions];
        for (int i = -1; i < repetitions; i++) {
            if (!pairs && !barrier) world.Barrier();
            long begin = System.nanoTime();
            turn.run(operation);
            if (reports) world.Gather(one, 0, 1, MPI.BYTE, all, 0, 1, MPI.BYTE, 0);
            if (i >= 0) took[i] = System.nanoTime() - begin;
        }
        boolean equal = repetitions > 0;
        if (repetitions == 0) {
            int[] right = {turn.isRight(operation) ? 1 : 0}, every = new int[1];
            world.Allreduce(right, 0, every, 0, 1, MPI.INT, MPI.MIN);
            equal = every[0] == 1;
        }
        String seconds = Arrays.stream(took).mapToObj(nanoseconds -> String.format(Locale.ROOT, "%.9f", nanoseconds * 1e-9)).collect(Collectors.joining(", "));
        return "{\"equal\": " + equal + ", \"seconds\": [" + seconds + "]}\n";
    }

    public static void main(String[] arguments) throws Exception {
        MPI.Init(arguments);
        world = MPI.COMM_WORLD;
        rank = world.Rank();
        size = world.Size();
        try (SocketChannel connection = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            connection.connect(UnixDomainSocketAddress.of(arguments[arguments.length - 1]));
            connection.write(ByteBuffer.wrap((rank + "\n").getBytes()));
            BufferedReader told = new BufferedReader(new InputStreamReader(Channels.newInputStream(connection)));
            for (String line = told.readLine(); line != null; line = told.readLine()) {
                String[] words = line.split(" ");
                String answer = take(words[0], words[1].equals("objects"), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                if (rank == 0) connection.write(ByteBuffer.wrap(answer.getBytes()));
            }
        }
        MPI.Finalize();
    }
}
