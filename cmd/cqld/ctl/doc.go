// Package ctl implements `cqld ctl`, the operator's commands, with the names and output columns of nodetool. It finds
// the node, sends it operations through the control port (package node/control), and prints the results as a table, or
// with --json unchanged.
//
// It makes no decisions: the node determines what an operation does, and whether it is allowed now.
//
//	kong parses ─▶ Commands.AfterApply ─▶ command.Run ─▶ fetch ─▶ control.Call ─▶ node
//	                     │ session            │ show         │ Progress
//	                     ▼                    ▼              ▼
//	                where, json        out: the result   progress: the bar, on stderr
package ctl
