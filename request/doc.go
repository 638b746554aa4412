// Package request is the layer between the protocol servers and the coordinator and proposer. A Request describes one request of a client,
// whichever protocol it came by: who sent it, under which context and deadline, at which consistency, and what it has cost so
// far. The protocol server creates it, and everything that works for the request gets it.
//
// An Executor sends the request's reads and writes to the coordinator, and its conditional changes and serial reads of one partition
// to the proposer (package paxos). It waits for their answers, cancels what no client waits
// for any more, and counts and measures. It is the only place above the coordinator in which a request's goroutine blocks.
//
//	server ──────── query ──────────┐
//	                                ├─ Request ─▶ Executor ─▶ coordinator, paxos
//	azuretables ─── entity ─────────┘                │
//	                                                 └─▶ auth.Authorizer
//
// The package doesn't know what a statement or an operation means, nor which permissions it needs.
package request
