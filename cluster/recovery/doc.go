// Package recovery creates a new cluster from the metadata of the surviving nodes, after a majority of the voters has
// been lost permanently.
//
// A State is the metadata log of a stopped node. Functions of States, Reports and Files are pure; Disk reads and writes
// a State. Package cmd/cqld/recover shows the plan to the operator and asks for confirmation.
//
//	State ─ Inspect ─▶ Report                                of each survivor
//	State, Reports ─ Prepare ─▶ Plan ─ File ─▶ File          on the survivor with the newest metadata
//	State, File ─ Adopt ─▶ State                             on each survivor, including that one
//
// # Which metadata survive
//
// The newest log is the one with the highest term of its last entry and, in that term, the highest index, as in an
// election of Raft. Every entry that the cluster had committed and that any survivor has is in it: leaders of later
// terms have all committed entries, and two logs with the same last term are prefixes of one leader's log.
//
// All entries of that log are used, including entries that the survivor does not know to be committed: a leader
// acknowledges a change before its followers learn of the commit, so these entries may have been acknowledged. A change
// that the cluster never acknowledged, or even refused after another leader was elected, may therefore appear.
//
// # Why two recovered clusters cannot both work
//
// The voters of the new cluster are chosen from the survivors by a function of the metadata (package voters), and only
// a majority of them can decide anything. Each survivor adopts one recovery: it refuses a File of another one. Two
// recoveries of the same survivors therefore never both have a majority. A recovery of fewer survivors has other
// voters, so the operator must be certain that the others are lost.
//
// Nodes of the new and of the previous cluster refuse each other (messaging.Lineage). Epochs and node ids of the new
// cluster exceed all that the lost voters can have used, and its terms exceed those in which survivors voted.
package recovery
