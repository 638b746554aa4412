// Package simulation runs whole clusters in one goroutine: real coordinators, replicas and storage over a
// simulated network, clock and disk, with one seeded queue of events. One seed gives one history, so
// what a seed finds can be looked at again.
//
// It does not test races between goroutines of one node, nor the kernel: -race and integration do.
//
//	                 ┌──────────── Kernel: events in order of time, one at a time ────────────┐
//	clients ─▶ coordinator ─▶ replica.Local ─▶ storage on a disk that forgets what was not synced
//	           cluster (Raft, failure detector, joins) · moves, streams · hints
//	                 └──────▶ replica.Remote ─▶ Network: loses, delays, reorders, duplicates, partitions
//	nemesis: crashes, pauses, disks, clocks, links, members        workloads: history ─▶ their checkers
//
// A workload (workload.go) is a file of its own and a line in workloadKinds: clients that do things
// while the nemesis is at work, and a judge of what they saw. set.go is one to begin from.
package simulation
