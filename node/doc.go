// Package node assembles a node. It is the only package that imports all parts: it starts them in order, connects them
// to each other, and stops them in the opposite order.
//
// It makes no decisions about data or statements; it only sets defaults. What operators, clients and supervisors see of
// a node is in the packages below it: admin, metrics, sysviews, clients, notify, access and others.
//
//	Open:  storage ─▶ cluster (log on disk) ─▶ replica, coordinator ─▶ control ─▶ messaging ─▶ member ─▶ server
//	Close: control ─▶ server drains ─▶ hints stop ─▶ messaging ─▶ cluster ─▶ storage
//
// A process may contain several nodes: no state is in package variables, and every part gets its clock, its network,
// its file system and its randomness as an option. Tests rely on it (cqldtest, inprocess_test.go).
//
// Two kinds of goroutines exist (workGroup): jobs, whose panic ends only the job, and critical loops, whose panic or
// error stops the node through Failed. Close waits for both.
package node
