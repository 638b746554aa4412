// Package raftcheck refuses Raft messages that would end the process.
//
// etcd/raft trusts its peers: it panics when a message contradicts the log, for example when a heartbeat commits an
// entry that does not exist. A Checker compares each message with the state of this node before Raft sees it. It does
// not make Raft Byzantine fault tolerant: a member can still lead, and propose any command.
package raftcheck
