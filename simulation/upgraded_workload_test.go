package simulation

import (
	"fmt"
	"slices"
	"time"

	"cqld/clusterversion"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
)

// upgrades is the workload of an operator that upgrades a ring of two releases: it installs the new release on one
// machine after the other, takes machines back to the old one, and finalizes when all have the new one, or tries to do
// that too early. Machines that are wiped or join get the old release until the ring has the new version. The check is
// in twoReleases: no process that serves gets a message that its release cannot read.
type upgrades struct {
	c        *Cluster
	releases *twoReleases
	random   *kernel.Stream
	// met is the upgrade in progress, from the first installation to the new cluster version; nil means none.
	met                    func()
	tried, acked, wentBack int
}

func upgradedKind() workloadKind {
	return workloadKind{name: "upgraded", make: func(c *Cluster) workload {
		return &upgrades{c: c, releases: c.releases.(*twoReleases),
			random: kernel.NewStream(c.options.Seed, "upgraded")}
	}}
}

func (w *upgrades) start()                     { w.next() }
func (w *upgrades) idle() bool                 { return true }
func (w *upgrades) check()                     {}
func (w *upgrades) counts() (tried, acked int) { return w.tried, w.acked }

// next schedules the next step of the operator.
func (w *upgrades) next() {
	w.c.later(w.random.Between(50*time.Millisecond, 600*time.Millisecond), "upgrade", func() {
		w.step()
		w.next()
	})
}

// step installs a release on a machine, or finalizes the upgrade.
func (w *upgrades) step() {
	n, m := w.c.any(w.random), w.c.metadata()
	back, early, pause := w.random.Chance(250), w.random.Chance(300), w.random.Between(20*time.Millisecond, time.Second)
	if m == nil {
		return
	}
	old := slices.ContainsFunc(w.c.present(), func(n *Node) bool { return w.releases.on(n) == oldRelease() })
	switch {
	case m.ClusterVersion == newRelease().Max:
		if w.met != nil {
			w.met()
			w.met = nil
		}
	case (!old || early) && n.process.serves():
		w.finalize(n)
	case w.releases.on(n) == oldRelease():
		w.install(n, newRelease(), pause)
	// A machine can also go back while others finalize: its record decides.
	case back:
		w.wentBack++
		w.install(n, oldRelease(), pause)
	}
}

// install restarts a machine with a release.
func (w *upgrades) install(n *Node, r clusterversion.Range, pause time.Duration) {
	if n.departed || n.dead || n.leaving {
		return
	}
	if w.met == nil {
		w.met = w.c.meetings.Begin(meetings.RollingUpgrade, meetings.Endless)
	}
	n.stop()
	w.releases.installed[n] = r
	w.c.count(fmt.Sprint("installed a release of cluster ", r))
	w.c.later(pause, "restart", n.start)
}

// finalize finalizes the upgrade at a node. A refusal is an outcome like any other.
func (w *upgrades) finalize(n *Node) {
	w.tried++
	l := n.process
	l.Soon(func() {
		l.cluster.Upgrade().StartFinalize(func(err error) {
			if err == nil {
				w.acked++
			}
		})
	})
}

// readBack completes the upgrade in the healed cluster, and restarts all nodes: they start with logs of both versions.
func (w *upgrades) readBack() {
	for _, n := range w.c.present() {
		w.releases.installed[n] = newRelease()
	}
	w.c.operator.restartAll(w.random)
	for _, n := range w.c.present() {
		w.c.must(n, "finalizing the upgrade", func(l *process, done func(error)) {
			l.Soon(func() { l.cluster.Upgrade().StartFinalize(done) })
		})
	}
	w.c.operator.restartAll(w.random)
	for _, n := range w.c.present() {
		if n.process == nil {
			continue // recorded
		}
		if v := n.process.cluster.Metadata().ClusterVersion; v != newRelease().Max {
			w.c.fail("node %d has cluster version %d after the upgrade", n.id, v)
		}
	}
}
