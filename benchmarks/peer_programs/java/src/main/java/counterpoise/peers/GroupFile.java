package counterpoise.peers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a group leader gets: partition counts by topic, and the JoinGroup metadata of each member. Layout: see group_file.py. */
record GroupFile(Map<String, Integer> partitions, List<String> members, List<ByteBuffer> metadata) {

    static GroupFile read(Path path) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(path));
        Map<String, Integer> partitions = new LinkedHashMap<>();
        int topics = in.getInt();
        for (int t = 0; t < topics; t++) {
            partitions.put(topic(t), in.getInt());
        }
        int count = in.getInt();
        List<String> members = new ArrayList<>(count);
        List<ByteBuffer> metadata = new ArrayList<>(count);
        for (int m = 0; m < count; m++) {
            int length = in.getInt();
            members.add(member(m));
            metadata.add(in.slice(in.position(), length));
            in.position(in.position() + length);
        }
        return new GroupFile(partitions, members, metadata);
    }

    static String topic(int code) {
        return String.format("t%05d", code);
    }

    static String member(int code) {
        return String.format("m%05d", code);
    }

    /** The code behind a name of either kind. */
    static int code(String name) {
        return Integer.parseInt(name, 1, name.length(), 10);
    }
}
