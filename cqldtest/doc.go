// Package cqldtest starts a cqld ring inside a test process, for tests of programs that use Cassandra or Azure Tables.
//
//	func TestUsers(t *testing.T) {
//		ring := cqldtest.Start(t, cqldtest.Nodes(4))
//		config := gocql.NewCluster(ring.Addresses()...)
//		config.Port = ring.Port()
//		…
//		ring.Node(2).Kill()
//	}
//
// The nodes run the code of `cqld start`, with the same storage, replication and protocol servers. They listen on
// loopback addresses that no other cluster uses, or in memory. Tests can pause, stop, kill and restart nodes, partition
// the ring, slow down its disks and advance its clock.
//
// Each process has its own ring, so test binaries of several packages can run at the same time. The package does not
// simulate time or scheduling, and runs are not reproducible: the project's own deterministic tests are in package
// simulation.
//
//	Cluster ─▶ Node ─▶ process (one incarnation) ─▶ node.Node
//	  │                   ├─ clock    timers wait while the node is paused
//	  │                   ├─ network  connections wait while the node is paused or partitioned
//	  │                   └─ disk     operations wait while the node is paused, and are delayed
//	  └─ fabric: loopback or memory
package cqldtest
