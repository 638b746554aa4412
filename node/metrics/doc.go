// Package metrics shows what a node counts to Prometheus. It reads the counters of the parts when they are collected,
// and keeps none itself.
//
// Names have one scheme: cqld_SUBSYSTEM_WHAT, then the unit if it is not a number of things (bytes, seconds), then
// total for counters. A test of package node lists the subsystems. Series whose labels are known when a node
// starts are present from the start, with 0.
package metrics
