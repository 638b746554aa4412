package execution

import (
	"cqld/coordinator"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
)

// CheckClientLevel refuses NODE_LOCAL unless it is allowed: Cassandra has it for debugging only, and refuses it by
// default. The functions in this file return *invalid.Error with Cassandra's messages, unless their comments say
// otherwise.
func CheckClientLevel(c ring.Consistency, nodeLocal bool) error {
	if c == ring.NodeLocal && !nodeLocal {
		return invalid.Errorf("NODE_LOCAL consistency level is highly dangerous and should be used only for " +
			"debugging purposes")
	}
	return nil
}

// CheckReadLevel rejects ANY, which only writes accept.
func CheckReadLevel(c ring.Consistency) error {
	if c == ring.Any {
		return invalid.Errorf("ANY ConsistencyLevel is only supported for writes")
	}
	return nil
}

// CheckSerialReadLevel refuses serial reads of more than one partition. keys is the number of partitions: Paxos decides
// about one partition at a time.
func CheckSerialReadLevel(c ring.Consistency, keys int) error {
	if c.IsSerial() && keys > 1 {
		return invalid.Errorf("SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time")
	}
	return nil
}

// CheckLocalLevel refuses levels of more than one replica for the system keyspaces that are local to every node.
// (Cassandra's virtual keyspaces, such as system_views, accept every level.)
func CheckLocalLevel(t *schema.Table, level ring.Consistency) error {
	if t.Keyspace != "system" && t.Keyspace != "system_schema" {
		return nil
	}
	// Only this node stores these tables, so the error is the same as for a keyspace with replication factor 1.
	if need := level.BlockFor(ring.Replication{Class: ring.Simple, Factor: 1}, ""); need > 1 {
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: 1}
	}
	return nil
}

// ReadLevel returns the level at which a table is read in a ring of some nodes. In a ring with one node, a read of
// system_traces (replication factor 2) needs one replica only, so clients such as cqlsh, which read traces at the
// level of their statements, find them. All other reads use level.
func ReadLevel(t *schema.Table, level ring.Consistency, nodes int) ring.Consistency {
	if nodes == 1 && t.Keyspace == "system_traces" && !level.IsSerial() {
		return ring.One
	}
	return level
}

// CheckWriteLevel rejects the serial levels, which only conditional changes accept.
func CheckWriteLevel(c ring.Consistency) error {
	if c.IsSerial() {
		return invalid.Errorf("You must use conditional updates for serializable writes")
	}
	return nil
}

// CheckCounterLevel refuses levels at which counters are not updated.
func CheckCounterLevel(c ring.Consistency) error {
	if c.IsSerial() {
		return invalid.Errorf("Counter operations are inherently non-serializable")
	}
	return nil
}

// CheckConditionalLevels rejects consistency levels that a conditional change cannot use on table t.
func CheckConditionalLevels(t *schema.Table, commit, serial ring.Consistency) error {
	// serial is the level of the Paxos rounds and commit the level at which the decision is written to replicas.
	if !serial.IsSerial() {
		return invalid.Errorf("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL")
	}
	if commit.IsSerial() {
		return invalid.Errorf("%s is not supported as conditional update commit consistency. Use ANY if you mean "+
			"\"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"", commit)
	}
	// SimpleStrategy and LocalStrategy have no quorum in each data center.
	if x := t.Replication; commit == ring.EachQuorum && !x.ByDatacenter() {
		return invalid.Errorf("consistency level EACH_QUORUM not compatible with replication strategy (%s)",
			x.Class.Name())
	}
	return nil
}
