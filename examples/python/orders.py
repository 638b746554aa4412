"""An example of a program in Python that uses cqld with the driver cassandra-driver.

Start a ring with "cqld local", then run it: python orders.py. CQLD_CONTACT_POINTS names other nodes.
"""

import os

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy

profile = ExecutionProfile(
    load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
    consistency_level=ConsistencyLevel.QUORUM,
    request_timeout=20,
)


def main():
    points = os.environ.get("CQLD_CONTACT_POINTS", "127.0.0.1").split(",")
    with Cluster(points, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect()
        session.execute("DROP KEYSPACE IF EXISTS example_python")
        session.execute(
            "CREATE KEYSPACE example_python WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        session.set_keyspace("example_python")
        session.execute(
            "CREATE TABLE orders (customer text, id int, item text, tags set<text>, PRIMARY KEY (customer, id))"
        )
        session.execute("CREATE INDEX ON orders (tags)")

        insert = session.prepare("INSERT INTO orders (customer, id, item, tags) VALUES (?, ?, ?, ?)")
        for i, (item, tags) in enumerate([("lamp", {"light"}), ("table", {"wood"}), ("chair", {"wood", "new"})]):
            session.execute(insert, ("ada", i + 1, item, tags))

        for row in session.execute("SELECT id, item FROM orders WHERE customer = 'ada' AND id > 1"):
            print(row.id, row.item)
        wooden = session.execute("SELECT item FROM orders WHERE tags CONTAINS 'wood'")
        print("wooden:", ", ".join(sorted(row.item for row in wooden)))

        result = session.execute("UPDATE orders SET item = 'sofa' WHERE customer = 'ada' AND id = 3 IF item = 'bed'")
        print("changed" if result.was_applied else "it is a " + result.one().item)


if __name__ == "__main__":
    main()
