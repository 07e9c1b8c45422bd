// A Java member with Kafka's own assignors, run from source by `java Member.java`; ends on SIGTERM.
// Arguments: bootstrap group name topics(comma) assignor-classes(comma) session-ms journal [group.instance.id]
// Without assignor classes it uses the protocol `consumer` (KIP-848), with the broker's assignor and session.
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

public class Member {
    static FileOutputStream journal;

    static void write(String event, String fields) {
        String line = String.format(java.util.Locale.ROOT, "{\"time\": %.6f, \"event\": \"%s\"%s}\n",
            System.currentTimeMillis() / 1000.0, event, fields);
        try {
            journal.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] args) throws Exception {
        journal = new FileOutputStream(args[6], true);
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("client.id", args[2]);
        if (args[4].isEmpty()) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("partition.assignment.strategy", args[4]);
            config.put("session.timeout.ms", args[5]);
            config.put("heartbeat.interval.ms", "500");
        }
        config.put("metadata.max.age.ms", "1000");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        if (args.length > 7) config.put("group.instance.id", args[7]);
        if (System.getProperty("client.rack") != null) config.put("client.rack", System.getProperty("client.rack"));
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config);
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        CountDownLatch ended = new CountDownLatch(1);
        boolean[] ending = {false};
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending[0] = true;
            consumer.wakeup();
            try {
                ended.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(args[3].split(",")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(done);
                offsets.keySet().retainAll(partitions);
                commit(consumer, offsets);
                done.keySet().removeAll(partitions);
                write("revoked", ", \"partitions\": " + names(partitions));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                done.keySet().removeAll(partitions);
                write("assigned", ", \"partitions\": " + names(consumer.assignment()) + ", \"generation\": "
                    + consumer.groupMetadata().generationId());
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                done.keySet().removeAll(partitions);
                write("revoked", ", \"partitions\": " + names(partitions));
            }
        });
        write("started", "");
        String before = "";
        try {
            while (!ending[0]) {
                ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(200));
                String now = ", \"partitions\": " + names(consumer.assignment());
                if (!now.equals(before)) {
                    write("owns", now);
                    before = now;
                }
                for (TopicPartition partition : batch.partitions()) {
                    List<String> values = new ArrayList<>();
                    for (ConsumerRecord<String, String> each : batch.records(partition)) {
                        values.add(each.value());
                        done.put(partition, new OffsetAndMetadata(each.offset() + 1));
                    }
                    write("records", ", \"partition\": \"" + partition + "\", \"values\": [" + String.join(", ", values) + "]");
                }
                if (!batch.isEmpty()) commit(consumer, done);
            }
        } catch (WakeupException expected) {
            // The shutdown hook's way to end a poll.
        } finally {
            consumer.close();
            write("ended", "");
            ended.countDown();
        }
    }

    static void commit(KafkaConsumer<String, String> consumer, Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (offsets.isEmpty()) return;
        try {
            consumer.commitSync(offsets);
        } catch (WakeupException error) {
            throw error;
        } catch (RuntimeException error) {
            write("commit failed", ", \"error\": \"" + error.getClass().getSimpleName() + "\"");
        }
    }

    static String names(Collection<TopicPartition> partitions) {
        return new TreeSet<>(partitions.stream().map(each -> "\"" + each + "\"").collect(Collectors.toSet())).toString();
    }
}
