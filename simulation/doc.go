// Package simulation runs whole clusters in one goroutine: real coordinators, replicas and storage over a simulated
// network, clock and disk, with one seeded queue of events. A seed determines the whole history, so a failure can be
// reproduced.
//
// It does not test races between goroutines of one node, nor the operating system: -race and package integration do.
//
//	                 ┌──── package kernel: events in order of time, one at a time ────────────┐
//	clients ─▶ coordinator ─▶ replica.Local ─▶ storage on a disk that loses unsynced data
//	           cluster (Raft, failure detector, joins) · moves, streams · hints
//	                 └──────▶ replica.Remote ─▶ Network: loses, delays, reorders, duplicates, partitions
//	nemesis: crashes, pauses, disks, clocks, links, members   workloads ─▶ packages history and elle: checks
//
// A Cluster runs its nodes and waits for them. The nemesis strikes with faults of processes, links, clocks and disks
// (nemesis.go, and a file for each of these groups). The operator (operator.go) executes commands: changes of the ring,
// repairs, restarts. The verifier (converge.go, snapshot.go) checks the healed cluster, and order (order.go) numbers
// what the clients observe.
//
// A workload (workload.go) is a file of its own and a line in workloadKinds: clients that send requests while the
// nemesis is active, and a check of their observations. set.go is an example.
package simulation
