package simulation

import (
	"time"

	"cqld/repair"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// in reports whether the replicas of a machine are in the scope of a repair. It depends on the data center and the ID
// in the ring, not on the number of the machine.
func (n *Node) in(scope *repair.Scope) bool {
	return n.process != nil && len(scope.Of(n.cluster.metadata().Topology, []ring.NodeID{n.process.Self()})) > 0
}

// repairSome repairs some replicas of a healed cluster while all other nodes are paused, as if they were dead: the
// replicas must be equal afterwards. The paused nodes keep their differences for the complete repair that follows.
func (v *verifier) repairSome() {
	c := v.c
	scope := c.operator.someReplicas(kernel.NewStream(c.options.Seed, "some replicas"))
	var in []*Node
	for _, n := range c.present() {
		switch {
		case n.in(&scope):
			in = append(in, n)
		case n.process != nil:
			// Paused, not ended: a repair of its scope must not contact it, and it continues with its state
			// afterwards.
			n.process.Pause()
		}
	}
	var different []string
	// Batches that are replayed meanwhile can make replicas differ again, so it tries several times.
	for i := range 5 {
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
			n.process.Resume()
		}
	}
	alive := func() bool { return len(c.missing()) == 0 && c.allSeen() }
	if c.kernel.RunUntil(c.kernel.Now()+c.paced(10*time.Second), alive); !alive() {
		c.fail("ten seconds after a pause, nodes are still considered dead")
	}
}
