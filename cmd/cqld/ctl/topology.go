package ctl

import (
	"errors"
	"fmt"
	"io"

	"cqld/node/control"
)

type repairCommand struct {
	tablesCommand
	Corrupted bool `help:"Only what lay in corrupt files of this node."`
}

// Run makes replicas equal.
func (c *repairCommand) Run(s *session) error {
	return ask(s, control.Repair, control.RepairArgs{TablesArgs: c.args(), Corrupted: c.Corrupted}, func(w io.Writer, r control.RepairResult) error {
		p := &printer{w: w}
		p.line("%d ranges compared, %d parts were different, %d rows sent (%s scanned)", r.Ranges, r.Different, r.Rows, size(r.Bytes))
		if r.Forgotten > 0 {
			p.line("%d states of lightweight transactions purged", r.Forgotten)
		}
		if r.Unpurged > 0 {
			p.line("%d ranges keep theirs, and their tombstones, until the next repair", r.Unpurged)
		}
		if r.Skipped > 0 {
			p.line("%d ranges have a replica that is down: repair again when it is up", r.Skipped)
		}
		if r.Moving > 0 {
			p.line("%d ranges change their replicas: repair again when the ring does not change", r.Moving)
		}
		for _, name := range r.LeftOut {
			p.line("%s was dropped meanwhile and is left out", name)
		}
		return p.err
	})
}

type decommissionCommand struct {
	Force bool `short:"f" help:"Also when a keyspace's replication factor is more than the nodes that are left."`
}

// Run makes the node hand over its data and leave.
func (c *decommissionCommand) Run(s *session) error {
	err := orCommitted(s, ask(s, control.Decommission, control.ForceArgs{Force: c.Force}, showDecommissioned), control.Departure{Left: true}, showDecommissioned)
	if errors.Is(err, control.ErrStopped) {
		return fmt.Errorf("%w: start it again, and the decommission goes on, or take it back on another node: cqld ctl abort", err)
	}
	return err
}

// showDecommissioned says what is left to do.
func showDecommissioned(w io.Writer, _ control.Departure) error {
	_, err := fmt.Fprintln(w, "The node has left, and its process ends. What the others own may be uneven now: 'cqld ctl status KEYSPACE' shows it, "+
		"and 'cqld ctl move' without tokens, on one node after the other, evens it out.")
	return err
}

// orCommitted returns nil, after showing result, when the process ended after it had reported that the operation has
// succeeded. Any other end of the process stays an error: a node that was killed has not left.
func orCommitted[R any](s *session, err error, result R, text func(io.Writer, R) error) error {
	if !errors.Is(err, control.ErrStopped) || !s.committed {
		return err
	}
	return show(s, result, text)
}

type removeNodeCommand struct {
	Node  string `arg:"" help:"Host ID, number or address of the node."`
	Force bool   `short:"f" help:"Also when a range has no replica left to fetch it from: its data is lost."`
}

// Run removes a dead node.
func (c *removeNodeCommand) Run(s *session) error {
	return ask(s, control.RemoveNode, control.NodeArgs{Node: c.Node, Force: c.Force}, quiet[control.None])
}

type moveCommand struct {
	Tokens []int64 `arg:"" optional:"" help:"The node's tokens afterwards, negative ones after --; as many as now where ownership is most even when none is given."`
	Force  bool    `short:"f" help:"Also when these are fewer tokens than the node has: its share shrinks."`
}

// Run gives the node other tokens.
func (c *moveCommand) Run(s *session) error {
	return ask(s, control.Move, control.MoveArgs{Tokens: c.Tokens, Force: c.Force}, quiet[control.None])
}

type rebuildCommand struct {
	Datacenter string `arg:"" optional:"" help:"Where data comes from; anywhere when it is not given."`
	Keyspace   string `short:"k" help:"One keyspace only."`
}

// Run fetches the node's data from others.
func (c *rebuildCommand) Run(s *session) error {
	return ask(s, control.Rebuild, control.RebuildArgs{Datacenter: c.Datacenter, Keyspace: c.Keyspace}, quiet[control.None])
}

type abortCommand struct {
	Operation uint64 `arg:"" optional:"" help:"Its ID, as 'operations' shows it; the only one when it is not given."`
}

// Run takes an operation back.
func (c *abortCommand) Run(s *session) error {
	return orCommitted(s, ask(s, control.Abort, control.AbortArgs{Operation: c.Operation}, showAborted), control.Departure{Left: true}, showAborted)
}

func showAborted(w io.Writer, d control.Departure) error {
	if !d.Left {
		return nil
	}
	_, err := fmt.Fprintln(w, "The node's join was aborted, and its process ends.")
	return err
}

type operationsCommand struct{}

// Run prints what changes the ring now.
func (c *operationsCommand) Run(s *session) error {
	return ask(s, control.Operations, control.None{}, showChanges)
}

func showChanges(w io.Writer, all control.Changes) error {
	if len(all.Operations) == 0 {
		_, err := fmt.Fprintln(w, "The ring is not changing.")
		return err
	}
	t := newTable("ID", "Operation", "Node", "Host ID", "Phase", "Nodes that have their data")
	for _, o := range all.Operations {
		t.row(fmt.Sprint(o.ID), o.Kind, host(o.Node.Address), o.Node.HostID, o.Phase, fmt.Sprintf("%d of %d", o.Streamed, o.Gaining))
	}
	return t.print(w)
}

type membersCommand struct{}

// Run prints all that is known of each member.
func (c *membersCommand) Run(s *session) error {
	return ask(s, control.StatusOf, control.KeyspaceArgs{}, showMembers)
}

func showMembers(w io.Writer, st control.Status) error {
	p := &printer{w: w}
	for _, m := range st.Members {
		p.line("%s\n  ID:%d\n  HOST_ID:%s\n  STATUS:%s\n  ALIVE:%t\n  DC:%s\n  RACK:%s\n  INTERNAL_ADDRESS_AND_PORT:%s\n  NATIVE_ADDRESS_AND_PORT:%s\n"+
			"  TOKENS:%d\n  LOAD:%s", host(m.Address), m.ID, m.HostID, m.State, m.Up, m.Datacenter, m.Rack, m.Address, m.Native, m.Tokens, load(m))
	}
	return p.err
}

type versionCommand struct{}

// Run prints what the node was built from.
func (c *versionCommand) Run(s *session) error {
	return ask(s, control.InfoOf, control.None{}, func(w io.Writer, i control.Info) error {
		_, err := fmt.Fprintf(w, "ReleaseVersion: %s\nBuild: %s\n", i.Release, i.Version)
		return err
	})
}
