package paxos

import (
	"errors"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
)

// checkFactor refuses a conditional change or a serial read if the partition has fewer replicas than the consistency levels
// need, for example if the replication factor is larger than the ring: Cassandra uses the factor, not the number of nodes.
// It checks the serial level first. round.plan handles replicas that are down.
func (c *Proposer) checkFactor(table *schema.Table, req *CASRequest) error {
	if req.Serial == ring.All {
		return nil // a round of all existing replicas
	}
	set := c.replicasOf(c.view.Topology(), table, req.Command.Key.Token)
	for _, level := range []ring.Consistency{plainLevel(req.Serial), req.Consistency} {
		need := level.BlockFor(table.Replication, c.localDC)
		if level == ring.Any || need <= len(set.Natural) || need > 1 && len(set.Natural) == 0 {
			continue
		}
		alive := 0
		for _, node := range set.Natural {
			if node == c.view.Self() || c.view.Alive(node) {
				alive++
			}
		}
		c.counts.unavailable.Add(1)
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: alive}
	}
	return nil
}

// asRead converts the error of a serial read's votes to the error that readers receive.
func asRead(err error) error {
	var timeout *coordinator.WriteTimeout
	var failure *coordinator.WriteFailure
	var unknown *coordinator.CASUnknown
	switch {
	case errors.As(err, &timeout):
		return &coordinator.ReadTimeout{Consistency: timeout.Consistency, Received: timeout.Received, BlockFor: timeout.BlockFor}
	case errors.As(err, &failure):
		return &coordinator.ReadFailure{Consistency: failure.Consistency, Received: failure.Received, BlockFor: failure.BlockFor, Failures: failure.Failures}
	case errors.As(err, &unknown):
		return &coordinator.ReadTimeout{Consistency: unknown.Consistency, Received: unknown.Received, BlockFor: unknown.BlockFor}
	}
	return err
}
