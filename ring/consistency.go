package ring

// Consistency is a consistency level, with the numbers of the native protocol (v5 §3).
type Consistency uint16

// The levels of the native protocol. NodeLocal is Cassandra's own addition.
const (
	Any         Consistency = 0
	One         Consistency = 1
	Two         Consistency = 2
	Three       Consistency = 3
	Quorum      Consistency = 4
	All         Consistency = 5
	LocalQuorum Consistency = 6
	EachQuorum  Consistency = 7
	Serial      Consistency = 8
	LocalSerial Consistency = 9
	LocalOne    Consistency = 10
	NodeLocal   Consistency = 11
)

// String returns the level's name in CQL, errors and logs.
func (c Consistency) String() string {
	// In the order of their numbers.
	names := [...]string{"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM",
		"SERIAL", "LOCAL_SERIAL", "LOCAL_ONE", "NODE_LOCAL"}
	if int(c) < len(names) {
		return names[c]
	}
	return "UNKNOWN"
}

// Valid reports whether c is a level of the protocol.
func (c Consistency) Valid() bool { return c <= NodeLocal }

// IsSerial reports whether c is a level of the Paxos phase of conditional updates.
func (c Consistency) IsSerial() bool { return c == Serial || c == LocalSerial }

// IsLocal reports whether only replicas of the coordinator's data center count.
func (c Consistency) IsLocal() bool { return c == LocalQuorum || c == LocalOne || c == LocalSerial }

// QuorumOf returns the majority of n.
func QuorumOf(n int) int { return n/2 + 1 }

// BlockFor returns the number of replicas that must answer at level c, without pending ones. For EachQuorum it is the
// sum of the data centers' quorums; the coordinator counts each data center separately.
func (c Consistency) BlockFor(r Replication, localDatacenter string) int {
	switch c {
	case Any, One, LocalOne, NodeLocal:
		return 1
	case Two:
		return 2
	case Three:
		return 3
	case All:
		return r.Total()
	case LocalQuorum, LocalSerial:
		return QuorumOf(r.In(localDatacenter))
	case EachQuorum:
		// Without data centers, EACH_QUORUM is QUORUM.
		if !r.ByDatacenter() {
			return QuorumOf(r.Total())
		}
		n := 0
		for _, f := range r.Datacenters {
			n += QuorumOf(f.Factor)
		}
		return n
	}
	// Quorum and Serial, and levels that the protocol does not have.
	return QuorumOf(r.Total())
}
