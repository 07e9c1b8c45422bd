package counterpoise.peers;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** The client's StickyAssignor and CooperativeStickyAssignor, as a kernel and as the whole work of a group leader. */
final class StickyPeer {
    private final GroupFile group;
    private final boolean cooperative;
    private final Map<String, List<PartitionInfo>> infos = new HashMap<>();

    private StickyPeer(String assignor, GroupFile group) {
        this.group = group;
        this.cooperative = assignor.equals("cooperative-sticky");
        Node nowhere = Node.noNode();
        Node[] none = new Node[0];
        group.partitions().forEach((topic, count) -> {
            List<PartitionInfo> of = new ArrayList<>(count);
            for (int p = 0; p < count; p++) {
                of.add(new PartitionInfo(topic, p, nowhere, none, none));
            }
            infos.put(topic, of);
        });
    }

    static List<Surface> surfaces(String assignor, GroupFile group) {
        StickyPeer peer = new StickyPeer(assignor, group);
        return List.of(peer.new Kernel(), peer.new Leader());
    }

    private AbstractStickyAssignor assignor() {
        return cooperative ? new CooperativeStickyAssignor() : new StickyAssignor();
    }

    private Map<String, Subscription> subscriptions() {
        Map<String, Subscription> of = new HashMap<>();
        for (int m = 0; m < group.members().size(); m++) {
            of.put(group.members().get(m), ConsumerProtocol.deserializeSubscription(group.metadata().get(m).duplicate()));
        }
        return of;
    }

    private final class Kernel implements Surface {
        private Map<String, Subscription> subscriptions;
        private Map<String, List<TopicPartition>> result;

        @Override
        public String name() {
            return "kernel";
        }

        @Override
        public void prepare() {
            result = null;
            subscriptions = subscriptions();
        }

        @Override
        public void run() {
            result = assignor().assignPartitions(infos, subscriptions);
        }

        @Override
        public Owners owners() {
            Map<String, List<TopicPartition>> last = cooperative ? secondRound() : result;
            Owners owners = new Owners(group.partitions());
            last.forEach((member, given) ->
                given.forEach(tp -> owners.set(GroupFile.code(tp.topic()), tp.partition(), GroupFile.code(member))));
            return owners;
        }

        /** A cooperative round withholds what changes hands; the members join again, and the next round hands it out. */
        private Map<String, List<TopicPartition>> secondRound() {
            Map<String, Subscription> again = new HashMap<>();
            subscriptions.forEach((member, first) -> {
                ByteBuffer generation = ByteBuffer.allocate(4).putInt(0, 2);
                again.put(member, new Subscription(first.topics(), generation, result.get(member), 2, Optional.empty()));
            });
            return assignor().assignPartitions(infos, again);
        }
    }

    private final class Leader implements Surface {
        private final Cluster cluster = new Cluster("c", List.of(),
            infos.values().stream().flatMap(List::stream).toList(), Collections.emptySet(), Collections.emptySet());
        private long written;

        @Override
        public String name() {
            return "leader";
        }

        @Override
        public void prepare() {
            written = 0;
        }

        @Override
        public void run() {
            Map<String, Assignment> assignments =
                assignor().assign(cluster, new GroupSubscription(subscriptions())).groupAssignment();
            for (Assignment assignment : assignments.values()) {
                written += ConsumerProtocol.serializeAssignment(assignment).remaining();
            }
        }

        @Override
        public Owners owners() {
            if (written == 0) {
                throw new IllegalStateException("the leader wrote nothing");
            }
            return null;
        }
    }
}
