// Package control is the control port: how an operator's command reaches a node, and how the answer
// comes back. Both ends are here, so that they cannot differ.
//
// An operation is a name with the type of its arguments and of its result (operations.go). The
// package moves them and decides who may ask; what an operation does is the node's business, how it
// looks is the command's.
//
//	cqld ctl ── Client ── control.sock in the data directory, mode 0600 ─────┐
//	                                                                         ├─ Server ─ Operation ─ node
//	cqld ctl ── Client ── control_address, loopback, token of control.token ─┘
//
// It is HTTP: POST /v1/NAME with the arguments as JSON. The answer is lines of JSON, any number of
// them {"progress": …}, the last one {"result": …} or {"error": …}. It is no part of the data path,
// and no promise to other programs: client and server are of one build.
package control
