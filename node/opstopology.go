package node

import (
	"context"

	"cqld/node/control"
)

// notYet answers an operation whose machinery is not there.
func notYet[A, R any](what string) func(context.Context, A, control.Report) (R, error) {
	return func(context.Context, A, control.Report) (result R, err error) {
		return result, control.NotSupported(what)
	}
}

// opChanges are the operations that change the ring at this moment.
func (n *Node) opChanges(context.Context, control.None, control.Report) (control.Changes, error) {
	t := n.cluster.Metadata().Topology
	out := control.Changes{Operations: []control.Change{}}
	for _, o := range t.Operations() {
		c := control.Change{ID: o.ID, Kind: o.Kind.String(), Phase: o.Phase.String(), Gaining: len(o.Gaining), Streamed: len(o.Streamed)}
		if m := t.Node(o.Node); m != nil {
			c.Node = n.member(m)
		}
		out.Operations = append(out.Operations, c)
	}
	return out, nil
}
