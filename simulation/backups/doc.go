// Package backups makes backups of a simulated cluster and restores them, with the parts of package node/backups, while
// faults strike. The store is a bucket in memory that outlives all processes; its requests fail, are slow, and lose
// their answers. In other runs, it is a directory of a machine whose power is cut: what was synced survives, and what
// was not, at random.
//
//	Workload: clients ─▶ table saved                  operator ─▶ create, restore, delete, sweep at any node
//	Node:     node/backups with waits and goroutines of the simulation ─▶ store ─▶ buckettest.Memory, or
//	                                                                 machine: the directory of package backup
//
// Each backup with a manifest must contain every change that was acknowledged before its hybrid time, and nothing that
// was never written; each table whose restoration was reported must have this content on every replica.
//
// # What a backup may contain
//
// Each row is changed by writes and deletions with ascending timestamps. The manifest names the time of the backup, and
// the workload knows when the leader took that time from its clock (from) and when an attempt reported success (until),
// both in the order of client observations. The row in the backup must be
//
//   - the last change that was acknowledged before from: it was on a quorum when the checkpoints were made;
//   - or a later change that was sent before until, whether or not it was acknowledged.
//
// A deletion is a change like any other, so a backup without tombstones shows older values and is found.
//
// # What a moment may contain
//
// With Workload.Archive, the nodes archive their logs, an operator notes hybrid times, and the state of these moments
// is restored, from the newest backup before each. The coordinator of a change takes a stamp before it sends the
// change, and another one when it is acknowledged: the stamps of the change in the logs of the replicas that have
// acknowledged it are between both. The table must have each change whose second stamp is not after the moment, and
// none whose first stamp is after it, on each replica. Ticks, which are in the order of real time, do not count: clocks
// differ.
//
// A TRUNCATE removes what was acknowledged before it began. Rows that were written during it, and after one that
// failed, may be there or not. In the healed cluster, each moment must be restorable, except for the reasons of
// mayRefuse.
//
// # A run
//
//	Start      clients change rows; the operator gives one command after the other to any node, and sometimes up to
//	           three at once; outages of the store come and go; new processes get their part of backups within 20 ms
//	ReadBack   the cluster is healed: tables that were restored are compared on each replica, and tables that are
//	           dropped are restored first; every backup is verified and restored under a new name; rows of purged
//	           tables are gone
//	           with an archive, three of the moments are restored and compared
//	Check      the newest backup is restored to a new ring of another size
//
// An attempt ends with its process. As with resumed jobs, another node begins the next attempt, possibly while nodes
// still work on the one before: leases end such work after some seconds.
//
// The commands are attempts to make a backup, new ones and repeated ones; attempts to restore a backup, also one that
// is not complete; the deletion of a backup with the removal of unneeded objects after a short grace; DROP TABLE of
// what was restored, UNDROP TABLE and PURGE TABLE. Convergence by hints does not compare the tables of unfinished
// restorations, whose rows are on some replicas until another attempt or a repair.
//
// Commands that are impossible are part of a run: a backup while a node is down, a restoration of a backup that was
// deleted, an UNDROP TABLE of a table that another node has purged. They must be refused, and change nothing.
//
// # Determinism
//
// Pebble writes the time of day into its files. Their sizes and hashes therefore differ between two runs of a seed, and
// with them the order and the number of objects in the store. Nothing that is sent between nodes and no number of
// events may depend on them: requests for objects take no time unless the store has an outage, and answers of nodes are
// sent without sizes and without the names of files.
//
// # What is not simulated
//
// Requests that a service executes long after their client has given them up (ADR 49, point 10), and the jobs of
// node/admin: the operator begins attempts itself.
//
// Package simulation implements Host and Process, and runs the workload.
package backups
