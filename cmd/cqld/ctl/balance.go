package ctl

import (
	"fmt"
	"io"

	"cqld/node/control"
)

// balanceCommand shows the steps that would even out the load of the nodes.
type balanceCommand struct{}

// Run prints the shares of the nodes, and the plan.
func (*balanceCommand) Run(s *session) error {
	return ask(s, control.BalanceOf, struct{}{}, showPlan)
}

// showPlan prints a table of the nodes, the steps and the rejected candidates.
func showPlan(w io.Writer, b control.BalancePlan) error {
	p := &printer{w: w}
	t := newTable("Node", "Tokens", "Charge/s", "Share", "Size", "Share", "Above").alignRight(1, 2, 3, 4, 5, 6)
	for _, n := range b.Shares {
		t.row(n.Node, fmt.Sprint(n.Tokens), perSecond(n.Charge), perSecond(n.Want), size(n.Bytes), size(n.WantBytes),
			percent(n.Excess))
	}
	p.table(t)
	p.line("\nSteps that would make the nodes more even: %d", len(b.Steps))
	for i := range b.Steps {
		s := &b.Steps[i]
		p.line("%s: %s, moves %s", transferOf(&s.BalanceTransfer), s.Reason, size(s.Bytes))
		for _, c := range s.Changes {
			p.line("  %s: charge %+.1f/s, %+d bytes, %+d ranges", c.Node, c.Charge, c.Bytes, c.Ranges)
		}
	}
	if len(b.Rejected) > 0 {
		p.line("\nNot done:")
	}
	for _, r := range b.Rejected {
		if r.Transfer == nil {
			p.line("%s", r.Reason)
			continue
		}
		p.line("%s: %s", transferOf(r.Transfer), r.Reason)
	}
	return p.err
}

// transferOf describes a transfer.
func transferOf(t *control.BalanceTransfer) string {
	if t.From == "" {
		return fmt.Sprintf("new token %d on %s", t.Token, t.To)
	}
	return fmt.Sprintf("token %d from %s to %s", t.Token, t.From, t.To)
}
