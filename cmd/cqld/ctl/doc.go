// Package ctl is `cqld ctl`: the operator's commands, with the names, the columns and the manners of
// nodetool. It finds the node, asks it over the control port (node/control), and prints the answer as
// a table, or with --json as the node gave it.
//
// It decides nothing: what an operation does, and whether it may be done now, the node knows.
package ctl
