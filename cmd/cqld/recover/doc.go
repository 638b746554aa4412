// Package recover contains the subcommands of `cqld recover`, which make a cluster that has lost a majority of its
// voters for good work again (package cluster/recovery).
//
// The nodes are stopped, and each command works on their data directories. On several machines, the reports of inspect
// and the file of start are copied from one to another.
package recover
