package counterpoise.peers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;

/** The result of a peer: one member code per partition, all topics end to end; -1 where nobody got it. */
final class Owners {
    private final int[] topicStart;
    private final int[] owner;

    Owners(Map<String, Integer> partitions) {
        topicStart = new int[partitions.size() + 1];
        partitions.forEach((topic, count) -> topicStart[GroupFile.code(topic) + 1] = count);
        Arrays.parallelPrefix(topicStart, Integer::sum);
        owner = new int[topicStart[partitions.size()]];
        Arrays.fill(owner, -1);
    }

    void set(int topic, int partition, int member) {
        int at = topicStart[topic] + partition;
        if (owner[at] != -1) {
            throw new IllegalStateException("partition " + partition + " of topic " + topic + " was given out twice");
        }
        owner[at] = member;
    }

    void write(Path path) throws IOException {
        ByteBuffer out = ByteBuffer.allocate(4 * owner.length);
        out.asIntBuffer().put(owner);
        Files.write(path, out.array());
    }
}
