// Kafka's own classes over commits in memory: a warm decoding loop, and the formatter that its console consumer prints with.
//
//     java -cp '.kafka/libs/*' Offsets.java FILE decode|formatter ROUNDS
//
// FILE: per record int32 length and bytes of the key, then of the value (length -1: null). A JSON line per round.

import java.io.DataInputStream;
import java.io.BufferedInputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.tools.consumer.OffsetsMessageFormatter;

public final class Offsets {
    private static List<byte[][]> read(Path file) throws Exception {
        List<byte[][]> records = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 20))) {
            int total = in.readInt();
            for (int at = 0; at < total; at++) {
                byte[] key = in.readNBytes(in.readInt());
                int length = in.readInt();
                records.add(new byte[][] {key, length < 0 ? null : in.readNBytes(length)});
            }
        }
        return records;
    }

    private static long decode(List<byte[][]> records) {
        long sum = 0;
        for (byte[][] record : records) {
            ByteBuffer key = ByteBuffer.wrap(record[0]);
            short type = key.getShort();
            if (type > 1) {
                continue;
            }
            OffsetCommitKey who = new OffsetCommitKey(new ByteBufferAccessor(key), (short) 0);
            sum += who.partition();
            if (record[1] != null) {
                ByteBuffer value = ByteBuffer.wrap(record[1]);
                short version = value.getShort();
                sum += new OffsetCommitValue(new ByteBufferAccessor(value), version).offset();
            }
        }
        return sum;
    }

    private static long print(List<byte[][]> records, OffsetsMessageFormatter formatter, long[] written) {
        PrintStream out = new PrintStream(new OutputStream() {
            @Override public void write(int one) {
                written[0]++;
            }
            @Override public void write(byte[] bytes, int from, int length) {
                written[0] += length;
            }
        }, false);
        long offset = 0;
        for (byte[][] record : records) {
            formatter.writeTo(new ConsumerRecord<>("__consumer_offsets", 0, offset++, record[0], record[1]), out);
        }
        out.flush();
        return written[0];
    }

    public static void main(String[] args) throws Exception {
        List<byte[][]> records = read(Path.of(args[0]));
        OffsetsMessageFormatter formatter = new OffsetsMessageFormatter();
        formatter.configure(Map.of());
        var threads = ManagementFactory.getThreadMXBean();
        for (int round = 0; round < Integer.parseInt(args[2]); round++) {
            long start = System.nanoTime();
            long cpu = threads.getCurrentThreadCpuTime();
            long sum = args[1].equals("decode") ? decode(records) : print(records, formatter, new long[1]);
            double wall = (System.nanoTime() - start) / 1e9;
            double used = (threads.getCurrentThreadCpuTime() - cpu) / 1e9;
            System.out.printf(
                java.util.Locale.ROOT,
                "{\"round\": %d, \"records\": %d, \"seconds\": %.3f, \"cpu\": %.3f, \"sum\": %d}%n",
                round, records.size(), wall, used, sum);
        }
    }
}
