// Package voters chooses the members of a cluster that vote in Raft, and describes whether a majority of them is alive.
//
// It is pure: package cluster knows the members and carries out the changes.
package voters
