package paxos

import (
	"errors"
	"math"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// checkFactor refuses a conditional change or a serial read if the partition has fewer replicas than the consistency
// levels need, for example if the replication factor is larger than the ring: Cassandra uses the factor, not the number
// of nodes. It checks the serial level first. machine.plan handles replicas that are down.
func (c *Proposer) checkFactor(table *schema.Table, req *CASRequest) error {
	// A round of all existing replicas, or a keyspace that has a replica on each of them.
	if req.Serial == ring.All || table.Replication.Class == ring.Everywhere {
		return nil
	}
	set := c.replicasOf(c.view.Topology(), table, req.Command.Key.Token)
	// The serial level is checked first: a change that cannot be decided is never committed.
	for _, level := range []ring.Consistency{plainLevel(req.Serial), req.Consistency} {
		need := level.BlockFor(table.Replication, c.localDC)
		if level == ring.Any || need <= len(set.Natural) || need > 1 && len(set.Natural) == 0 {
			// A quorum of one replica needs no other, and ANY needs none.
			continue
		}
		alive := 0
		for _, node := range set.Natural {
			// The error reports how many of them could be asked.
			if node == c.view.Self() || c.view.Alive(node) {
				alive++
			}
		}
		c.counts.unavailable.Add(1)
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: alive}
	}
	return nil
}

// commitUnavailable returns Unavailable if too few replicas are alive for the commit of a change at its level. A change
// must not be proposed then: once a majority has accepted it, it is made, and can no longer be refused. Cassandra
// checks only after the votes: it answers Unavailable, and the next proposer completes the change. At ANY, the client
// does not wait for the commit. The voters' majority implies the level that overlaps with it.
func (m *machine) commitUnavailable() error {
	if m.level == ring.Any || m.level == plainLevel(m.serial) {
		return nil
	}
	return m.c.coordinator.Available(&row.Mutation{Table: m.cmd.Table, Key: m.cmd.Key}, m.level)
}

// refuseCommit answers the members whose changes were about to be proposed with err, because their commit cannot meet
// its level, and makes another attempt for the others: their conditions may have been evaluated on these changes. If
// earlier proposals are in doubt, an empty change first makes them void.
func (m *machine) refuseCommit(out []effect, err error) []effect {
	switch {
	case m.c.coordinator.MayArrive(err, math.MaxInt64): // again determines which members have time left
		m.lacking = err
		return m.again(out, CauseUnavailable, coordinator.ArrivalPause)
	case len(m.own) > 0:
		// The members of the earlier proposals can be answered when these are void.
		return m.supersede(out)
	}
	// rest is called before the members are answered, because the attempt has ended although nothing failed in it.
	m.rest()
	out = m.answerOr(out, func(i int) error {
		// The others are answered by the next attempt, without these changes.
		if m.outcomes[i].changes {
			return err
		}
		return nil
	})
	if m.over {
		return out
	}
	return m.again(out, CauseUnavailable, 0)
}

// asRead converts the error of a serial read's votes to the error that readers receive.
func asRead(err error) error {
	var timeout *coordinator.WriteTimeout
	var failure *coordinator.WriteFailure
	var unknown *coordinator.CASUnknown
	switch {
	case errors.As(err, &timeout):
		return &coordinator.ReadTimeout{Consistency: timeout.Consistency, Received: timeout.Received,
			BlockFor: timeout.BlockFor}
	case errors.As(err, &failure):
		return &coordinator.ReadFailure{Consistency: failure.Consistency, Received: failure.Received,
			BlockFor: failure.BlockFor, Failures: failure.Failures}
	case errors.As(err, &unknown):
		// A read changes nothing: an unknown outcome of the empty proposal is a time-out to its client.
		return &coordinator.ReadTimeout{Consistency: unknown.Consistency, Received: unknown.Received,
			BlockFor: unknown.BlockFor}
	}
	return err
}
