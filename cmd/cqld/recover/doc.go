// Package recover implements `cqld recover`, which recovers a cluster that has permanently lost a majority of its
// voters (package cluster/recovery).
//
// The nodes are stopped, and each command works on their data directories. On several machines, the reports of inspect
// and the file of start are copied from one to another.
package recover
