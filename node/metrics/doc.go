// Package metrics shows what a node counts to Prometheus. It reads the counters of the parts when they are collected,
// and keeps none itself.
//
// Names have one scheme: cqld_SUBSYSTEM_WHAT, then the unit if it is not a number of things (bytes, seconds), then
// total for counters. A test of package node lists the subsystems. Series whose labels are known when a node
// starts are present from the start, with 0.
//
//	part (atomic counters) ◀── read ── Collector ◀── GET /metrics of the control port ── Prometheus
//
// Labels have few values, which operators or this program determine: kinds, reasons, tables, other nodes. A client must
// not be able to create series, for example by the name of a user or of a key.
//
// A figure is a counter if it only rises during the life of a process, and a gauge otherwise. Averages and rates are
// left to Prometheus: a node exports sums and counts.
//
// docs/METRICS.md lists all names.
package metrics
