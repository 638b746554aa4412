// Package simulation runs whole clusters in one goroutine: real coordinators, replicas and storage over a simulated
// network, clock and disk, with one seeded queue of events. A seed determines the whole history, so a failure can be
// reproduced.
//
// It does not test races between goroutines of one node, nor the operating system: -race and package integration do.
//
//	                 ┌──── package kernel: events in order of time, one at a time ────────────┐
//	clients ─▶ coordinator ─▶ replica.Local ─▶ storage on a disk that loses unsynced data
//	           cluster (Raft, failure detector, joins) · moves, streams · hints
//	                 └──────▶ replica.Remote ─▶ package network: loses, delays, reorders, duplicates, partitions
//	nemesis: crashes, pauses, disks, clocks, links, members   workloads ─▶ packages history and elle: checks
//
// A Cluster runs its nodes and waits for them. A node is a machine (node.go) with at most one process (process.go).
// What the process runs, sends and stores passes through packages goroutine, network and engine.
//
// The nemesis strikes with faults of processes, links, clocks and disks (nemesis.go, and a file for each of these
// groups). The operator (operator.go) executes commands: changes of the ring, repairs, restarts. The verifier
// (converge.go, snapshot.go) checks the healed cluster, with package pages. Order (order.go) numbers what the clients
// observe, and package meetings counts which operations coincided.
//
// A workload (workload.go) is a file of its own and a line in workloadKinds: clients that send requests while the
// nemesis is active, and a check of their observations. set.go is an example.
//
// # A run
//
//	NewCluster   nodes join one after the other; tables are created; workloads are made
//	faults       clients send requests, the nemesis strikes: any request may fail, no result may be wrong
//	heal         all faults end, nodes that are down start; clients stop
//	settle       every node serves, operations of the ring end, hints are delivered, each within bounded virtual time
//	converge     replicas are equal by hints, by a repair or by reads; every read succeeds
//	check        workloads check their histories, and the verifier the snapshots
//
// # Determinism
//
// Two runs of one seed must have the same events, and the same bytes in all messages: TestSimRepeats compares the hash
// of both. Code of this package therefore follows rules:
//
//   - Time is the kernel's. Nodes have it through clock, with the error of their machine.
//   - Random numbers come from a kernel.Stream with a name of its own. A new draw belongs to a new stream, because it
//     would change all later draws of an existing one, and with them the seeds that tests name.
//   - Code that would run in another goroutine is an event (package goroutine): Soon, Spawn, or RunTask if it blocks.
//   - Raft takes random numbers from the system. Tests replace these, too (run in sim_test.go).
//   - The order of a map must not reach a message, an event or the trace.
//   - Pebble's goroutines must not decide anything. Disk faults are on or off, and are never drawn in a call from
//     Pebble.
//   - Text that may differ between two runs, such as the name of a table file, is noted (Kernel.Note), not traced.
//
// # Outcomes
//
// A request ends in one of three ways. It is acknowledged; it certainly had no effect (coordinator.ErrNotSent); or its
// outcome is unknown: it failed in another way, or its client did not wait. An unknown write may take effect at any
// later time, or never. A workload must allow for all of these, and must not excuse more. What may excuse a violation
// is recorded by the cluster: losing, crashed and healed, and the verifier's excuses.
//
// # Additions
//
// A new fault is a name in faultKinds and a method in the strikes of its group. A new workload or fault is marked as
// drawn, so that the seeds of DefaultOptions do not change. Both need a line in the table of docs/MEETINGS.md
// (TestEveryOperationIsClassified). A check needs a test with a fault that it finds, a mutant of tools/mutants
// (mutant.Need) or a fault of what is simulated (Unsafe): a check that finds nothing then is no check.
//
// # Failures
//
// A failed run prints the command that repeats it (Options.Command). With -shrink, it also looks for fewer faults,
// workloads, clients and turns that fail. TestSimTrace writes the events of a seed as text.
package simulation
