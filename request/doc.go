// Package request is the layer between the protocol servers and the coordinator and proposer. A Request describes one
// request of a client of any protocol: its principal, context, deadline, consistency, and its cost so far. The protocol
// server creates it and passes it to all packages that execute the request.
//
// An Executor sends the request's reads and writes to the coordinator, and its conditional changes and serial reads of
// one partition to the proposer (package paxos). It waits for their responses, cancels operations whose client has
// disconnected, and counts and measures them. It is the only place above the coordinator in which a request's goroutine
// blocks.
//
// A Scan executes reads that take several commands: it continues each after the page that it received, reads several
// partitions concurrently, and passes their rows on in order.
//
//	server ──────── query ──────────┐
//	                                ├─ Request ─▶ Executor ─▶ coordinator, paxos
//	azuretables ─── entity ─────────┘                │
//	                                                 └─▶ auth.Authorizer
//
// The package does not know the meaning of statements or operations, nor which permissions they need.
package request
