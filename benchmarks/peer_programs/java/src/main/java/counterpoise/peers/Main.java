package counterpoise.peers;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.ThreadMXBean;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * Times one assignor on one group file, and prints one JSON object per line:
 * {"surface", "begins"} before the first run of each surface, {"surface", "peak_kb"} after it,
 * {"surface", "ms", "cpu_ms"} after each run: wall clock, and processor time of the calling thread.
 *
 * Arguments: assignor (sticky, cooperative-sticky, uniform), group file, file for the owners, seconds per surface, most runs.
 */
public final class Main {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Main() {
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 5) {
            throw new IllegalArgumentException("five arguments are wanted: assignor, group file, owners file, seconds, runs");
        }
        GroupFile group = GroupFile.read(Path.of(args[1]));
        List<Surface> surfaces = args[0].equals("uniform")
            ? List.of(new UniformPeer(group))
            : StickyPeer.surfaces(args[0], group);
        for (Surface surface : surfaces) {
            time(surface, Path.of(args[2]), Double.parseDouble(args[3]), Integer.parseInt(args[4]));
        }
    }

    private static void time(Surface surface, Path ownersFile, double seconds, int mostRuns) throws IOException {
        double spent = 0;
        for (int run = 0; run < mostRuns && (run < 3 || spent < seconds); run++) {
            surface.prepare();
            long before = run == 0 ? Memory.settle() : 0;
            if (run == 0) {
                print("{\"surface\": \"%s\", \"begins\": true}", surface.name());
            }
            long cpuStart = THREADS.getCurrentThreadCpuTime();
            long start = System.nanoTime();
            surface.run();
            double ms = (System.nanoTime() - start) / 1e6;
            double cpu = (THREADS.getCurrentThreadCpuTime() - cpuStart) / 1e6;
            spent += ms / 1e3;
            print("{\"surface\": \"%s\", \"ms\": %.4f, \"cpu_ms\": %.4f}", surface.name(), ms, cpu);
            if (run == 0) {
                print("{\"surface\": \"%s\", \"peak_kb\": %d}", surface.name(), Memory.peak() - before);
                Owners owners = surface.owners();
                if (owners != null) {
                    owners.write(ownersFile);
                }
            }
        }
    }

    private static void print(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
        System.out.flush();
    }

    /** Heap in use, garbage that no collection has met yet included. */
    private static final class Memory {
        /** Collects garbage, forgets the peak so far, and returns what is in use now, in kB. */
        static long settle() {
            System.gc();
            heap().forEach(MemoryPoolMXBean::resetPeakUsage);
            return heap().mapToLong(pool -> pool.getUsage().getUsed()).sum() / 1024;
        }

        /** The most that was in use since then; pools peak at different times, so this is an upper bound. */
        static long peak() {
            return heap().mapToLong(pool -> pool.getPeakUsage().getUsed()).sum() / 1024;
        }

        private static Stream<MemoryPoolMXBean> heap() {
            return ManagementFactory.getMemoryPoolMXBeans().stream().filter(pool -> pool.getType() == MemoryType.HEAP);
        }
    }
}
