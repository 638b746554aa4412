// Package scenario runs clusters for the tests of the protocols between nodes: coordinator, paxos, hints, batchlog,
// counters and listing. Only tests import it.
//
// A Cluster is a few nodes with real storage in memory. One goroutine runs all of them: messages move when a test
// delivers them, and time passes when a test advances the clock. Run plays the scenario files of a package, which
// describe a Cluster's history and the expected messages and results.
//
//	testdata/scenarios/*.txt ─ Run ─▶ commands ─▶ Cluster ─▶ Node: Parts, Proposer, replica, storage
//	                            ▲                    │ letters, time
//	                            └── what happened ◀──┘
//
// A file is a list of commands, each with its output after a line of four hyphens:
//
//	write k1 a=x ts=10 at=4
//	----
//	ok
//
//	deliver
//	----
//	4>1 mutation
//	1>4 mutation ok
//	write 1: ok
//
// go test -rewrite replaces the outputs by the present ones; the diff is what a reviewer reads.
package scenario
