package admin

import (
	"context"

	"cqld/cluster/metadata"
	"cqld/node/control"
	"cqld/ring"
	"cqld/ring/balance"
)

// Balance plans how to even out the load of the nodes, from what this node knows. It changes nothing.
func (v *Ranges) Balance(context.Context, struct{}, control.Report) (control.BalancePlan, error) {
	m := v.cluster.Metadata()
	t := m.Topology
	in := &balance.Input{Topology: t, Replications: metadata.UserReplications(m.Schema), Load: v.Combined(),
		Alive: map[ring.NodeID]bool{}}
	for _, n := range t.Nodes() {
		in.Alive[n.ID] = v.cluster.Alive(n.ID)
	}
	steps, rejected, shares := balance.Plan(in, balance.DefaultOptions())
	out := control.BalancePlan{Shares: []control.BalanceShare{}, Steps: []control.BalanceStep{},
		Rejected: []control.BalanceRejection{}}
	for _, s := range shares {
		out.Shares = append(out.Shares, control.BalanceShare{Node: t.NameOf(s.Node), Tokens: s.Tokens, Charge: s.Charge,
			Want: s.Want, Bytes: s.Bytes, WantBytes: s.WantBytes, Excess: s.Deviation})
	}
	for i := range steps {
		s := &steps[i]
		step := control.BalanceStep{BalanceTransfer: transfer(t, s.Transfer), Reason: s.Reason, Bytes: s.Bytes}
		for _, c := range s.Changes {
			step.Changes = append(step.Changes, control.BalanceChange{Node: t.NameOf(c.Node), Charge: c.Charge,
				Bytes: c.Bytes, Ranges: c.Ranges})
		}
		out.Steps = append(out.Steps, step)
	}
	for _, r := range rejected {
		x := control.BalanceRejection{Reason: r.Reason}
		if r.Transfer != (ring.Transfer{}) {
			of := transfer(t, r.Transfer)
			x.Transfer = &of
		}
		out.Rejected = append(out.Rejected, x)
	}
	return out, nil
}

// transfer describes a transfer to operators.
func transfer(t *ring.Topology, x ring.Transfer) control.BalanceTransfer {
	out := control.BalanceTransfer{Token: int64(x.Token), To: t.NameOf(x.To)}
	if x.From != 0 {
		out.From = t.NameOf(x.From)
	}
	return out
}
