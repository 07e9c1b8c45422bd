// A Java consumer with default settings, run from source; ends on SIGTERM.
// Arguments: bootstrap group topic assignor session-ms journal [group.instance.id]; the assignor `consumer` means KIP-848.
import java.io.FileWriter;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;

public class LiveMember {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        if (args[3].equals("consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("partition.assignment.strategy", args[3]);
            config.put("session.timeout.ms", args[4]);
        }
        if (args.length > 6) config.put("group.instance.id", args[6]);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                ended.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(args[2]));
        try (FileWriter journal = new FileWriter(args[5], true)) {
            while (true) {
                StringBuilder lines = new StringBuilder();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    lines.append(String.format(Locale.ROOT, "%.4f %d %d%n", System.currentTimeMillis() / 1000.0, record.partition(), record.offset()));
                }
                journal.write(lines.toString());
                journal.flush();
            }
        } catch (WakeupException stop) {
            consumer.close();
        } finally {
            ended.countDown();
        }
    }
}
