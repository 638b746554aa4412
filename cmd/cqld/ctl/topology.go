package ctl

import (
	"errors"
	"fmt"
	"io"

	"cqld/node/control"
)

// repairCommand starts a job and waits for it. At most one of the three restrictions may be given.
type repairCommand struct {
	tablesCommand
	Corrupted bool     `help:"Repair only the ranges that this node lost in corrupt files."`
	InLocalDC bool     `name:"in-local-dc" help:"Repair only the replicas in the data center of this node."`
	InDC      []string `name:"in-dc" placeholder:"DC" help:"Repair only the replicas in these data centers."`
	InHosts   []string `name:"in-hosts" placeholder:"NODE" help:"Repair only the replicas on these nodes (ID, number or address)."`
}

// Run repairs the selected ranges.
func (c *repairCommand) Run(s *session) error {
	// The node refuses combinations of restrictions.
	args := control.RepairArgs{TablesArgs: c.args(), Corrupted: c.Corrupted,
		LocalDatacenter: c.InLocalDC, Datacenters: c.InDC, Hosts: c.InHosts}
	return ask(s, control.Repair, args, func(w io.Writer, r control.RepairResult) error {
		return showRepair(w, r, args.Restricted())
	})
}

// showRepair prints the result of a repair. restricted means that it did not cover all replicas.
func showRepair(w io.Writer, r control.RepairResult, restricted bool) error {
	p := &printer{w: w}
	p.line("%d ranges compared, %d parts differed, %d rows sent (%s scanned)",
		r.Ranges, r.Different, r.Rows, size(r.Bytes))
	if restricted {
		p.line("only some replicas were repaired: tombstones and Paxos state stay until a repair of all replicas")
	}
	// Zero figures are not printed.
	if r.Forgotten > 0 {
		p.line("%d Paxos states of lightweight transactions purged", r.Forgotten)
	}
	if r.Unpurged > 0 {
		p.line("%d ranges keep their Paxos state and their tombstones until the next repair", r.Unpurged)
	}
	if r.Skipped > 0 {
		p.line("%d ranges skipped because a replica is down: repair again when it is up", r.Skipped)
	}
	if r.Moving > 0 {
		p.line("%d ranges skipped because their replicas are changing: "+
			"repair again when no ring operation is in progress", r.Moving)
	}
	for _, name := range r.LeftOut {
		p.line("%s skipped: it was dropped during the repair", name)
	}
	return p.err
}

// decommissionCommand waits until the node has left the ring.
type decommissionCommand struct {
	Force bool `short:"f" help:"Proceed even if fewer nodes remain than a keyspace's replication factor."`
}

// Run decommissions the node.
func (c *decommissionCommand) Run(s *session) error {
	// The process of the node ends after a decommission, possibly before its response arrives.
	err := orCommitted(s, ask(s, control.Decommission, control.ForceArgs{Force: c.Force}, showDecommissioned),
		control.Departure{Left: true}, showDecommissioned)
	// The process ended before the operation did. The operation is part of the metadata, and continues when the node
	// restarts.
	if errors.Is(err, control.ErrStopped) {
		return fmt.Errorf("%w: start it again to resume the decommission, or abort it on another node with 'cqld "+
			"ctl abort'", err)
	}
	return err
}

// showDecommissioned prints what the operator has to do next.
func showDecommissioned(w io.Writer, _ control.Departure) error {
	_, err := fmt.Fprintln(w, "The node has left the ring, and its process ends. Ownership may be uneven now: check "+
		"it with 'cqld ctl status KEYSPACE', "+
		"and even it out with 'cqld ctl move' without tokens, on one node after the other.")
	return err
}

// orCommitted prints result and returns nil if the node's process ended after it had reported success. If the process
// ended for another reason, that is an error: a killed node has not left.
func orCommitted[R any](s *session, err error, result R, text func(io.Writer, R) error) error {
	// The node itself returned the error.
	if !errors.Is(err, control.ErrStopped) || !s.committed {
		return err
	}
	return show(s, result, text)
}

// removeNodeCommand names a dead node. It runs on any other node.
type removeNodeCommand struct {
	Node  string `arg:"" help:"Host ID, number or address of the node."`
	Force bool   `short:"f" help:"Proceed even if a range has no other replica; its data is lost."`
}

// Run removes a dead node from the ring.
func (c *removeNodeCommand) Run(s *session) error {
	return ask(s, control.RemoveNode, control.NodeArgs{Node: c.Node, Force: c.Force}, showRemoved)
}

// showRemoved prints which data is missing after a removal. It prints nothing if nothing is missing.
func showRemoved(w io.Writer, r control.Removal) error {
	p := &printer{w: w}
	if len(r.Missing) == 0 {
		return nil
	}
	p.line("The node was removed, but nodes that took over its ranges lack data, because they were down or too few " +
		"replicas were up:")
	for _, m := range r.Missing {
		p.line("  %d ranges of keyspace %s on %s", m.Ranges, m.Keyspace, host(m.Node))
	}
	p.line("Run 'cqld ctl repair' for these keyspaces on these nodes when they are up.")
	return p.err
}

// moveCommand takes tokens, or none for balanced ownership.
type moveCommand struct {
	Tokens []int64 `arg:"" optional:"" help:"The new tokens, negative ones after --. Default: as many tokens as now, chosen for the most even ownership."`
	Force  bool    `short:"f" help:"Proceed even if the node gets fewer tokens, which shrinks its share."`
}

// Run moves the node to other tokens.
func (c *moveCommand) Run(s *session) error {
	return ask(s, control.Move, control.MoveArgs{Tokens: c.Tokens, Force: c.Force}, quiet[control.None])
}

// rebuildCommand starts a job and waits for it.
type rebuildCommand struct {
	Datacenter string `arg:"" optional:"" help:"Data center to stream from; default: any."`
	Keyspace   string `short:"k" help:"Rebuild only this keyspace."`
}

// Run streams the node's data from other nodes.
func (c *rebuildCommand) Run(s *session) error {
	return ask(s, control.Rebuild, control.RebuildArgs{Datacenter: c.Datacenter, Keyspace: c.Keyspace},
		quiet[control.None])
}

// abortCommand may omit the ID if one operation is in progress.
type abortCommand struct {
	Operation uint64 `arg:"" optional:"" help:"ID of the operation, from 'operations'. Not needed if only one is in progress."`
}

// Run aborts an operation.
func (c *abortCommand) Run(s *session) error {
	return orCommitted(s, ask(s, control.Abort, control.AbortArgs{Operation: c.Operation}, showAborted),
		control.Departure{Left: true}, showAborted)
}

// showAborted prints a message only if the node's own join was aborted.
func showAborted(w io.Writer, d control.Departure) error {
	if !d.Left {
		return nil
	}
	_, err := fmt.Fprintln(w, "The node's join was aborted, and its process ends.")
	return err
}

// operationsCommand lists the operations that one node has applied.
type operationsCommand struct{}

// Run prints the topology operations in progress.
func (c *operationsCommand) Run(s *session) error {
	return ask(s, control.Operations, control.None{}, showChanges)
}

// showChanges prints a line for each ring operation.
func showChanges(w io.Writer, all control.Changes) error {
	if len(all.Operations) == 0 {
		_, err := fmt.Fprintln(w, "The ring is not changing.")
		return err
	}
	t := newTable("ID", "Operation", "Node", "Host ID", "Phase", "Nodes that have their data", "Waits for")
	for _, o := range all.Operations {
		t.row(fmt.Sprint(o.ID), o.Kind, host(o.Node.Address), o.Node.HostID, o.Phase,
			fmt.Sprintf("%d of %d", o.Streamed, o.Gaining), o.Waits)
	}
	return t.print(w)
}

// membersCommand prints each member as one node sees it.
type membersCommand struct{}

// Run prints the details of each member.
func (c *membersCommand) Run(s *session) error {
	return ask(s, control.StatusOf, control.KeyspaceArgs{}, showMembers)
}

// showMembers prints the fields of nodetool gossipinfo that exist, and the role in the metadata.
func showMembers(w io.Writer, st control.Status) error {
	p := &printer{w: w}
	for _, m := range st.Members {
		p.line("%s\n  ID:%d\n  HOST_ID:%s\n  STATUS:%s\n  ALIVE:%t\n  DC:%s\n  RACK:%s\n  "+
			"INTERNAL_ADDRESS_AND_PORT:%s\n  NATIVE_ADDRESS_AND_PORT:%s\n"+
			"  TOKENS:%d\n  LOAD:%s\n  VOTER:%s", host(m.Address), m.ID, m.HostID, m.State, m.Up, m.Datacenter, m.Rack,
			m.Address, m.Native, m.Tokens, load(m), voterText(m))
	}
	return p.err
}

// voterText describes a member's part in decisions about the metadata.
func voterText(m control.Member) string {
	switch {
	case m.Voter && m.Leader:
		return "true (leader)"
	case m.Voter:
		return "true"
	}
	return "false"
}

// versionCommand prints the release of Cassandra that clients see, and the build of cqld.
type versionCommand struct{}

// Run prints the version of the node's binary.
func (c *versionCommand) Run(s *session) error {
	return ask(s, control.InfoOf, control.None{}, func(w io.Writer, i control.Info) error {
		_, err := fmt.Fprintf(w, "ReleaseVersion: %s\nBuild: %s\n", i.Release, i.Version)
		return err
	})
}
