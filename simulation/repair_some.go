package simulation

import (
	"time"

	"cqld/repair"
	"cqld/ring"
)

// in reports whether the replicas of a machine are in the scope of a repair.
func (n *Node) in(scope *repair.Scope) bool {
	return n.process != nil && len(scope.Of(n.cluster.metadata().Topology, []ring.NodeID{n.process.Self()})) > 0
}

// repairSome repairs some replicas of a healed cluster while all other nodes are paused, as if they were dead: the
// replicas must be equal afterwards.
func (v *verifier) repairSome() {
	c := v.c
	scope := c.operator.someReplicas(NewStream(c.options.Seed, "some replicas"))
	var in []*Node
	for _, n := range c.present() {
		switch {
		case n.in(&scope):
			in = append(in, n)
		case n.process != nil:
			n.process.paused = true
		}
	}
	var different []string
	for i := range 5 { // batches that are replayed meanwhile can make them differ again
		if different = nil; len(in) == 0 {
			break
		}
		for _, table := range c.tables() {
			job := repair.Job{Table: table.StorageID, Range: ring.FullRange(), Scope: scope}
			what := "repairing some replicas of table " + table.Name
			c.mustWithin(5*time.Minute, in[i%len(in)], what, func(l *process, done func(error)) {
				l.repairer.Start(job, nil, func(_ repair.Report, err error) { done(err) })
			})
			different = append(different, v.differences(table, nil, &scope)...)
		}
		if len(different) == 0 {
			c.count("some replicas converged")
			break
		}
		c.kernel.RunUntil(c.kernel.Now()+c.paced(2*time.Second), func() bool { return false })
	}
	for _, d := range different {
		c.fail("after a repair of %+v: %s", scope, d)
	}
	for _, n := range c.present() {
		if n.process != nil {
			n.process.resume()
		}
	}
	alive := func() bool { return len(c.missing()) == 0 && c.allSeen() }
	if c.kernel.RunUntil(c.kernel.Now()+c.paced(10*time.Second), alive); !alive() {
		c.fail("ten seconds after a pause, nodes are still considered dead")
	}
}
