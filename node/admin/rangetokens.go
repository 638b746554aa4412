package admin

import (
	"context"
	"fmt"
	"slices"

	"cqld/cluster/metadata"
	"cqld/node/control"
	"cqld/ring"
)

// SplitRange divides a range at a token, for the owner of the range. No replica set changes, and no data move.
func (c *Topology) SplitRange(ctx context.Context, a control.TokenArgs, report control.Report) (control.None, error) {
	t := c.cluster.Metadata().Topology
	i, _ := slices.BinarySearch(t.Tokens(), ring.Token(a.Token))
	// The first token also ends the range that begins with the last one.
	owner := t.Owner(i % len(t.Tokens()))
	return c.reassign(ctx, []ring.Transfer{{Token: ring.Token(a.Token), To: owner.ID}}, report)
}

// MergeRange removes a token, so that its range becomes part of the next one. If the next token has the same owner, no
// data move.
func (c *Topology) MergeRange(ctx context.Context, a control.TokenArgs, report control.Report) (none control.None,
	err error) {
	from, err := c.ownerOf(a.Token)
	if err != nil {
		return none, err
	}
	return c.reassign(ctx, []ring.Transfer{{Token: ring.Token(a.Token), From: from}}, report)
}

// MoveRange gives tokens to a node: the replicas that gain their ranges stream them.
func (c *Topology) MoveRange(ctx context.Context, a control.MoveRangeArgs, report control.Report) (none control.None,
	err error) {
	to := c.members.find(a.To)
	if to == nil {
		return none, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("node %s does not exist", a.To)}
	}
	var transfers []ring.Transfer
	for _, tok := range slices.Sorted(slices.Values(a.Tokens)) {
		from, err := c.ownerOf(tok)
		if err != nil {
			return none, err
		}
		if from == to.ID {
			return none, &control.Error{Code: control.Refused,
				Message: fmt.Sprintf("node %s owns token %d already", a.To, tok)}
		}
		transfers = append(transfers, ring.Transfer{Token: ring.Token(tok), From: from, To: to.ID})
	}
	return c.reassign(ctx, transfers, report)
}

// ownerOf returns the owner of a token.
func (c *Topology) ownerOf(token int64) (ring.NodeID, error) {
	t := c.cluster.Metadata().Topology
	if i, ok := slices.BinarySearch(t.Tokens(), ring.Token(token)); ok {
		return t.Owner(i).ID, nil
	}
	return 0, &control.Error{Code: control.Refused,
		Message: fmt.Sprintf("no node owns token %d: a range is named by its end token ('cqld ctl ranges')", token)}
}

// reassign changes the owners of tokens, and returns when the operation has ended.
func (c *Topology) reassign(ctx context.Context, transfers []ring.Transfer, report control.Report) (none control.None,
	err error) {
	// Checked here, too, so that a list that is too long is not sent to the leader.
	if len(transfers) > metadata.TransfersMax {
		return none, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("at most %d tokens are moved at once", metadata.TransfersMax)}
	}
	id, err := c.cluster.Operations().Reassign(ctx, transfers)
	// If no replica set changes, the operation has ended with its begin, and has no id.
	if id == 0 || err != nil {
		return none, refusal(err)
	}
	if err := c.follow(ctx, id, err, report); err != nil {
		return none, err
	}
	o := ring.Operation{Kind: ring.Reassign, Node: ring.NodeOf(transfers), Transfers: transfers}
	if !o.Completed(c.cluster.Metadata().Topology) {
		return none, aborted(id)
	}
	return none, nil
}
