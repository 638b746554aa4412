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
// {"progress": …} lines, and last a {"result": …} or {"error": …} line. The response to GET /process ends with the
// process of the node, so that a client that stops a node can wait for this end. The protocol is not part of the data
// path, and has no compatibility guarantee for other programs: client and server must be of the same build.
//
// An exchange, with the lines of the answer as they are sent:
//
//	POST /v1/repair HTTP/1.1
//	{"keyspace":"shop","tables":["orders"]}
//
//	{"progress":{"what":"comparing","done":3,"total":16,"unit":"ranges","job":"7"}}
//	{"result":{"ranges":16,"different":1,"rows":12,"bytes":4096,"skipped":0,"moving":0,"forgotten":0,"unpurged":0}}
//
// The status is 200 as soon as the operation begins, so a client must read to the last line to learn the outcome. A
// connection that ends before it means that the node has stopped (ErrStopped).
package control
