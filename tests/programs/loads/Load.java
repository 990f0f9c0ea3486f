import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

/**
 * Allocates native memory as a JVM does: the compiler, direct buffers, compression, threads. Prints only
 * what does not depend on time or addresses. Argument: a scale, 1 for the smallest.
 */
public class Load {
    static long directBuffers(int seed, int count) {
        Random random = new Random(seed);
        ByteBuffer[] live = new ByteBuffer[50];
        CRC32 sum = new CRC32();
        for (int i = 0; i < count; i++) {
            int slot = random.nextInt(live.length);
            if (live[slot] != null) sum.update(live[slot].flip());
            live[slot] = ByteBuffer.allocateDirect(1 + random.nextInt(50000));
            while (live[slot].hasRemaining()) live[slot].put((byte) i);
            if (i % 20 == 0) sum.update(compressed(("row " + i).repeat(500).getBytes()));
        }
        return sum.getValue();
    }

    static byte[] compressed(byte[] data) {
        Deflater deflater = new Deflater();
        byte[] out = new byte[data.length + 100];
        deflater.setInput(data);
        deflater.finish();
        int length = deflater.deflate(out);
        deflater.end();
        return java.util.Arrays.copyOf(out, length);
    }

    public static void main(String[] arguments) throws Exception {
        int scale = Integer.parseInt(arguments[0]);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Callable<Long>> work = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int seed = i;
            work.add(() -> directBuffers(seed, 150 * scale));
        }
        for (Future<Long> result : pool.invokeAll(work)) System.out.println(result.get());
        pool.shutdown();
    }
}
