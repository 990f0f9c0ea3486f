// Direct buffers, zlib and short threads: the parts of a JVM that use malloc beside the Java heap.   java JavaWork ROUNDS
// Prints one checksum, the same each time.

import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class JavaWork {
    private static final class Random {
        private long state;
        Random(long seed) { state = seed; }
        int below(int limit) {
            state = state * 48271 % 2147483647L;
            return (int) (state % limit);
        }
    }

    private static long buffers(Random random) {
        ByteBuffer[] kept = new ByteBuffer[200];
        long sum = 0;
        for (int i = 0; i < 2000; i++) {
            ByteBuffer block = ByteBuffer.allocateDirect(64 + random.below(16000));
            block.put(0, (byte) i);
            kept[random.below(kept.length)] = block;
            sum += block.capacity();
        }
        return sum;
    }

    private static long compression(Random random) throws Exception {
        byte[] input = new byte[60000], packed = new byte[70000], output = new byte[60000];
        for (int i = 0; i < input.length; i++) input[i] = (byte) ('a' + random.below(6));
        CRC32 crc = new CRC32();
        for (int i = 0; i < 10; i++) {
            Deflater deflater = new Deflater(1 + i % 5);
            deflater.setInput(input);
            deflater.finish();
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            inflater.inflate(output);
            inflater.end();
            crc.update(output);
        }
        return crc.getValue();
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[0]);
        long[] results = new long[4];
        for (int round = 0; round < rounds; round++) {
            Thread[] threads = new Thread[results.length];
            for (int t = 0; t < threads.length; t++) {
                final int index = t;
                final Random random = new Random(1 + 17L * round + t);
                threads[t] = new Thread(() -> {
                    try {
                        results[index] = results[index] * 31 + buffers(random) + compression(random);
                    } catch (Exception error) {
                        throw new RuntimeException(error);
                    }
                });
                threads[t].start();
            }
            for (Thread thread : threads) thread.join();
        }
        long checksum = 0;
        for (long result : results) checksum = checksum * 1000003 + result;
        System.out.printf("java: checksum %016x%n", checksum);
    }
}
