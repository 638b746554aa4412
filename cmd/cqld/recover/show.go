package recover

import (
	"fmt"
	"io"
	"text/tabwriter"

	"cqld/cluster/metadata"
	"cqld/cluster/recovery"
	"cqld/ring"
)

// showReports prints a table of reports.
func showReports(out io.Writer, reports []*recovery.Report) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Address\tDC\tRack\tHost ID\tTerm\tLast entry\tKnown committed\tEpoch\tSchema version\tRecovery")
	for _, r := range reports {
		last := "-"
		if n := len(r.Recoveries); n > 0 {
			last = r.Recoveries[n-1].String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d (term %d)\t%d\t%d\t%s\t%s\n", r.Address, r.Datacenter, r.Rack, r.Host,
			r.Term, r.Last.Index, r.Last.Term, r.Commit, r.Epoch, r.Schema, last)
	}
	return w.Flush()
}

// showPlan prints the effect of a recovery, and what may be lost.
func showPlan(out io.Writer, p *recovery.Plan) error {
	fmt.Fprintf(out, "%s\n\n", p.Recovery.String())
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Node\tDC\tRack\tHost ID\tAfter the recovery")
	for _, n := range p.Survivors {
		after := "member"
		for _, id := range p.Voters {
			if id == uint64(n.ID) {
				after = "member, votes"
			}
		}
		showNode(w, n, after)
	}
	for _, n := range p.Lost {
		showNode(w, n, "LOST, is removed")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	showMetadata(out, p)
	// Members that an earlier recovery declared lost remain replicas until they are removed.
	return showLosses(out, recovery.Losses(p.Before, p.After.Lost()))
}

// showNode prints a line of the table of nodes.
func showNode(w io.Writer, n *ring.Node, after string) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", n.Internode, n.Datacenter, n.Rack, n.Host, after)
}

// showMetadata prints what happens to metadata whose commit is uncertain.
func showMetadata(out io.Writer, p *recovery.Plan) {
	fmt.Fprintf(out, "\nMetadata of epoch %d are taken. Changes of schema, roles and the ring that only lost nodes "+
		"have are lost.\n", p.Before.Epoch)
	if len(p.Uncertain) > 0 {
		fmt.Fprintf(out, "These changes are taken, too, although they may never have been acknowledged:\n")
	}
	for _, c := range p.Uncertain {
		fmt.Fprintf(out, "  %s\n", metadata.Describe(c))
	}
	for _, o := range p.Operations {
		fmt.Fprintf(out, "Operation %d (%s of %s) is aborted.\n", o.ID, o.Kind, p.Before.Topology.NameOf(o.Node))
	}
}

// showLosses prints which data may be lost, by keyspace and level.
func showLosses(out io.Writer, losses []recovery.Loss) error {
	if len(losses) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Keyspace\tLevel\tAcknowledged writes\tRequests afterwards")
	for _, l := range losses {
		for _, v := range l.Levels {
			kept := "MAY BE LOST"
			if v.Kept > 0 {
				kept = fmt.Sprintf("kept, by at least %d of the surviving replicas", v.Kept)
			}
			served := "UNAVAILABLE"
			if v.Served {
				served = "served"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Keyspace, v.Level, kept, served)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, l := range losses {
		if l.Without > 0 {
			fmt.Fprintf(out, "Keyspace %s: no replica of %d of %d ranges survives. THEIR DATA ARE LOST.\n", l.Keyspace,
				l.Without, l.Ranges)
		}
	}
	return nil
}
