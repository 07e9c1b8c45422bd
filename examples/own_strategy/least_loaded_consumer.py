"""The strategy of `least_loaded` in a consumer of kafka-python."""

from counterpoise.clients.kafka_python import RoundRobinAssignor


class LeastLoadedAssignor(RoundRobinAssignor):
    """`partition_assignment_strategy=[LeastLoadedAssignor]`, in every member of the group."""

    name = "least-loaded"
