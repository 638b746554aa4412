// Package control is the control port: the protocol of an operator's commands. It contains both client and server, so
// that they always agree.
//
// An operation is a name with the types of its arguments and of its result (operations.go). This package transports
// them and authorizes the client. Package node implements the operations; the command formats their results.
//
//	cqld ctl ── Client ── control.sock in the data directory, mode 0600 ─────┐
//	                                                                         ├─ Server ─ Operation ─ node
//	cqld ctl ── Client ── control_address, loopback, token of control.token ─┘
//
// The protocol is HTTP: POST /v1/NAME with the arguments as JSON. The answer consists of lines of JSON: any number of
// {"progress": …} lines, and last a {"result": …} or {"error": …} line. It is not part of the data path, and has no
// compatibility guarantee for other programs: client and server must be of the same build.
package control
