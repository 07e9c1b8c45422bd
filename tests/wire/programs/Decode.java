import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/** Decodes with Kafka's own classes: a line of a kind and hex in ("-": null), a line of JSON out, or "!" and what was thrown. */
public class Decode {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            try {
                out.println(decoded(parts));
            } catch (Exception error) {
                out.println("!" + error.getClass().getSimpleName());
            }
        }
        out.flush();
    }

    private static JsonNode decoded(String[] parts) {
        ByteBuffer data = bytes(parts[1]);
        if (parts[0].equals("record")) return record(data, bytes(parts[2]));
        short version = (short) Math.min(data.getShort(0), 3);
        if (parts[0].equals("subscription"))
            return ConsumerProtocolSubscriptionJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolSubscription(data), version);
        return ConsumerProtocolAssignmentJsonConverter.write(ConsumerProtocol.deserializeConsumerProtocolAssignment(data), version);
    }

    private static JsonNode record(ByteBuffer key, ByteBuffer value) {
        CoordinatorRecord record = SERDE.deserialize(key, value);
        ObjectNode node = new ObjectNode(JsonNodeFactory.instance);
        node.put("left", key.remaining() + (value == null ? 0 : value.remaining()));
        node.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (value != null) {
            short version = record.value().version();
            node.put("version", version);
            node.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version));
        }
        return node;
    }

    private static ByteBuffer bytes(String hex) {
        return hex.equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex.substring(1)));
    }
}
