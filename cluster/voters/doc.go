// Package voters chooses the members of a cluster that vote in Raft, and describes whether a majority of them is alive.
//
// It is pure: package cluster supplies the members and makes the changes.
package voters
