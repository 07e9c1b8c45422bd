"""A strategy of one's own: each partition goes to the subscriber with the fewest partitions so far."""

import numpy as np

from counterpoise.assignors import EAGER, Strategy


def assign(problem):
    """Owners, int32[P]: the code of a member for each partition, -1 if no member subscribes to its topic."""
    owner = np.full(problem.n_partitions, -1, np.int32)
    load = np.zeros(problem.n_members, np.int64)
    for topic in range(problem.n_topics):
        subscribers = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]]
        if len(subscribers):
            for partition in range(problem.topic_start[topic], problem.topic_start[topic + 1]):
                owner[partition] = subscribers[np.argmin(load[subscribers])]
                load[owner[partition]] += 1
    return owner


LEAST_LOADED = Strategy("least-loaded", (EAGER,), assign, "complete; ignores history", reads=frozenset())
