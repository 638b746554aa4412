package node

import (
	"context"

	"cqld/cluster"
	"cqld/node/config"
)

// lookUpSeeds looks the seeds up that are host names, and passes their addresses to then. It is called on a goroutine
// of its own, because the resolver may block. then is always called. A name that cannot be resolved is reported in the
// addresses' error and does not end the start: the cluster asks again.
func lookUpSeeds(ctx context.Context, o *config.Options, then func(cluster.SeedAddresses)) {
	ctx, cancel := context.WithTimeout(ctx, config.LookupTimeout)
	defer cancel()
	then(o.FindSeeds(ctx))
}
