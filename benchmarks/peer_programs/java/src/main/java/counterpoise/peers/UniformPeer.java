package counterpoise.peers;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** The broker's UniformAssignor (KIP-848); the coordinator's own structures are built from the members' cooperative metadata. */
final class UniformPeer implements Surface {
    private final GroupFile group;
    private final UniformAssignor assignor = new UniformAssignor();
    private final Map<String, Uuid> idOf = new HashMap<>();
    private final SubscribedTopicDescriber topics;
    private GroupSpecImpl spec;
    private GroupAssignment result;

    UniformPeer(GroupFile group) {
        this.group = group;
        this.topics = new Topics();
        group.partitions().keySet().forEach(topic -> idOf.put(topic, id(GroupFile.code(topic))));
    }

    @Override
    public String name() {
        return "kernel";
    }

    /** The broker keeps these structures between rebalances, so building them is not the assignor's time. */
    @Override
    public void prepare() {
        result = null;
        if (spec != null) {
            return;
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> ownerOf = new HashMap<>();
        Set<Set<Uuid>> kinds = new HashSet<>();
        for (int m = 0; m < group.members().size(); m++) {
            String member = group.members().get(m);
            Set<Uuid> subscribed = new LinkedHashSet<>();
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            read(group.metadata().get(m).duplicate(), subscribed, owned);
            owned.forEach((id, partitions) ->
                partitions.forEach(p -> ownerOf.computeIfAbsent(id, unused -> new HashMap<>()).put(p, member)));
            kinds.add(subscribed);
            members.put(member,
                new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), subscribed, new Assignment(owned)));
        }
        SubscriptionType type = kinds.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        spec = new GroupSpecImpl(members, type, ownerOf);
    }

    /** A subscription of version 1 or newer; Kafka's own reader takes minutes for a million topics that are owned. */
    private void read(ByteBuffer bytes, Set<Uuid> subscribed, Map<Uuid, Set<Integer>> owned) {
        bytes.getShort();
        for (int left = bytes.getInt(); left > 0; left--) {
            subscribed.add(topic(bytes));
        }
        bytes.position(bytes.position() + 4 + Math.max(0, bytes.getInt(bytes.position())));
        for (int left = bytes.getInt(); left > 0; left--) {
            Set<Integer> partitions = owned.computeIfAbsent(topic(bytes), unused -> new HashSet<>());
            for (int more = bytes.getInt(); more > 0; more--) {
                partitions.add(bytes.getInt());
            }
        }
    }

    private Uuid topic(ByteBuffer bytes) {
        byte[] name = new byte[bytes.getShort()];
        bytes.get(name);
        return idOf.get(new String(name, StandardCharsets.UTF_8));
    }

    @Override
    public void run() {
        result = assignor.assign(spec, topics);
    }

    @Override
    public Owners owners() {
        Owners owners = new Owners(group.partitions());
        result.members().forEach((member, given) -> given.partitions().forEach((id, partitions) ->
            partitions.forEach(p -> owners.set((int) id.getLeastSignificantBits(), p, GroupFile.code(member)))));
        return owners;
    }

    private static Uuid id(int topic) {
        return new Uuid(0x1234_5678_0000_4000L + 31L * topic, topic);
    }

    private final class Topics implements SubscribedTopicDescriber {
        private final Map<Uuid, Integer> counts = new HashMap<>();

        Topics() {
            group.partitions().forEach((topic, count) -> counts.put(id(GroupFile.code(topic)), count));
        }

        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
