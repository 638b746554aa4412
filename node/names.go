package node

import (
	"context"

	"cqld/cluster"
	"cqld/node/config"
)

// lookUpSeeds implements cluster.Options.LookUpSeeds.
func (n *Node) lookUpSeeds(then func(cluster.SeedAddresses)) {
	n.running.Go(func() {
		ctx, cancel := context.WithTimeout(n.lifetime, config.LookupTimeout)
		defer cancel()
		then(n.opts.FindSeeds(ctx))
	})
}
