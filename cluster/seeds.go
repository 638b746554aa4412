package cluster

import (
	"fmt"
	"net/netip"
	"time"
)

// SeedAddresses are the seeds of a node as Options.LookUpSeeds found them.
type SeedAddresses struct {
	Addrs []netip.AddrPort
	// First means that this node is the first seed, and that no address of a seed is unknown because a lookup failed:
	// the node may create a cluster. A name that does not exist is not a failure, because the other nodes may not exist
	// yet.
	First bool
	// Missing describes the seeds that have no address. Nil means that all have one.
	Missing error
}

// lookupPause is the pause between two rounds of join requests if names have to be looked up for each.
const lookupPause = time.Second

// lookUpSeeds calls then with the present addresses of the seeds. Without names, it calls then immediately, otherwise
// the loop does.
func (c *Cluster) lookUpSeeds(then func(SeedAddresses)) {
	if c.opts.LookUpSeeds == nil {
		seeds := c.opts.Seeds
		then(SeedAddresses{Addrs: seeds, First: len(seeds) == 0 || seeds[0] == c.opts.Self.Internode})
		return
	}
	c.opts.LookUpSeeds(func(s SeedAddresses) {
		c.post(func() {
			c.seeds = s.Addrs
			then(s)
		})
	})
}

// use takes the seeds for the next round of join requests.
func (j *joining) use(s SeedAddresses) {
	j.next, j.seeds = 0, nil
	for _, a := range s.Addrs {
		if a != j.c.opts.Self.Internode {
			j.seeds = append(j.seeds, a)
		}
	}
	j.founder = s.First && !j.exists
	if s.Missing != nil {
		j.waiting = fmt.Errorf("cluster: some seeds were not found: %w", s.Missing)
	}
}

// restart begins the next round after a pause.
func (j *joining) restart(pause time.Duration) {
	if j.c.opts.LookUpSeeds != nil {
		pause = max(pause, lookupPause)
	}
	j.later(pause, j.begin)
}

// begin begins a round of join requests: the names of the seeds are looked up, because addresses may have changed.
func (j *joining) begin() {
	j.c.lookUpSeeds(func(s SeedAddresses) {
		if !j.over() {
			j.use(s)
			j.ask()
		}
	})
}
