package simulation

import (
	"fmt"
	"slices"
	"time"
)

// faultKind is one kind of fault. strike begins it, and schedules its end.
type faultKind struct {
	name   string
	strike func(c *Cluster, r *Stream)
}

// late reports whether a kind was added later: it is drawn from a stream of its own, so that seeds without it do not
// change.
func (k faultKind) late() bool {
	return slices.Contains([]string{"move", "removenode", "abort", "raft-fsync-error", "raft-write-error",
		"raft-full"}, k.name)
}

// explicitOnly reports whether a kind is used only if the options name it: no seed draws it.
func (k faultKind) explicitOnly() bool { return k.name == "stop" || k.name == "dc-loss" }

// drawn reports whether only DrawnOptions draws a kind, so that the seeds of DefaultOptions do not change.
func (k faultKind) drawn() bool {
	return slices.Contains([]string{"restart", "power-torn", "clock-leap", "dc-cut", "dc-slow", "rebuild", "repair",
		"snapshot"}, k.name)
}

// faultKinds returns the kinds that seeds draw from.
func faultKinds() []faultKind {
	return []faultKind{
		// processes
		{"kill", (*Cluster).kill}, {"power-one", (*Cluster).powerOne}, {"power-all", (*Cluster).powerAll},
		{"restart-storm", (*Cluster).restartStorm}, {"pause", (*Cluster).pause},
		{"stop", (*Cluster).stopNode},
		// the network
		{"isolate", (*Cluster).isolate}, {"one-way", (*Cluster).oneWay}, {"halves", (*Cluster).halves},
		{"bridge", (*Cluster).bridge}, {"ring", (*Cluster).ring}, {"bad-links", (*Cluster).badLinks},
		{"slow-links", (*Cluster).slowLinks}, {"reorder", (*Cluster).reorder},
		// clocks
		{"clock-jump", (*Cluster).clockJump}, {"clock-drift", (*Cluster).clockDrift},
		{"clock-strobe", (*Cluster).clockStrobe},
		// disks
		{"slow-disk", (*Cluster).slowDisk}, {"fsync-error", (*Cluster).fsyncError},
		{"write-error", (*Cluster).writeError},
		{"read-error", (*Cluster).readError}, {"disk-full", (*Cluster).diskFull}, {"flush", (*Cluster).flush},
		{"bit-flip", (*Cluster).bitFlip}, {"wiped-disk", (*Cluster).wipedDisk},
		// members
		{"join", (*Cluster).joinNode}, {"leave", (*Cluster).leaveNode},
		{"move", (*Cluster).moveNode}, {"removenode", (*Cluster).removeNode}, {"abort", (*Cluster).abortOperation},
		// data centers, and commands of operators
		{"restart", (*Cluster).restart}, {"power-torn", (*Cluster).powerTorn}, {"clock-leap", (*Cluster).clockLeap},
		{"dc-cut", (*Cluster).cutDatacenter}, {"dc-slow", (*Cluster).slowDatacenters},
		{"dc-loss", (*Cluster).loseDatacenter},
		{"rebuild", (*Cluster).rebuildNode}, {"repair", (*Cluster).repairTable}, {"snapshot", (*Cluster).snapshotNode},
		// the disk of the Raft log
		{"raft-fsync-error", (*Cluster).raftFsyncError}, {"raft-write-error", (*Cluster).raftWriteError},
		{"raft-full", (*Cluster).raftFull},
	}
}

// fault is one fault in the plan of a run. Its random numbers depend only on the seed and its number, so that others
// can be omitted.
type fault struct {
	number int
	at     time.Duration
	kind   faultKind
}

// String returns the name of the fault for the option -faults.
func (f fault) String() string { return fmt.Sprintf("%d %s at %v", f.number, f.kind.name, f.at) }

// plan draws the faults of a run, of the kinds that the seed has enabled.
func plan(o Options) (faults []fault) {
	r := NewStream(o.Seed, "nemesis")
	var kinds []faultKind
	for _, k := range faultKinds() {
		if slices.Contains(o.FaultKinds, k.name) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	at := r.Between(100*time.Millisecond, 500*time.Millisecond)
	for number := 1; at < o.Faults; number++ {
		f := fault{number: number, at: at, kind: kinds[r.Intn(len(kinds))]}
		at += r.Between(50*time.Millisecond, 1200*time.Millisecond) / time.Duration(max(1, o.Hurry))
		if o.OnlyFaults == nil || slices.Contains(o.OnlyFaults, number) {
			faults = append(faults, f)
		}
	}
	return faults
}

// torment schedules the faults of the plan.
func (c *Cluster) torment() {
	for _, f := range c.plan {
		c.later(f.at, "fault", func() {
			c.count(f.kind.name)
			c.kernel.Trace(f.kind.name)
			f.kind.strike(c, NewStream(c.options.Seed, fmt.Sprint("fault ", f.number)))
		})
	}
}

// count counts an event for the result.
func (c *Cluster) count(what string) { c.counted[what]++ }

// later schedules a part of a fault, which is skipped after the cluster was healed.
func (c *Cluster) later(d time.Duration, label string, f func()) {
	c.kernel.After(c.scaled(d), label, func() {
		if !c.healed {
			f()
		}
	})
}

// scaled returns a duration multiplied by TimeScale.
func (c *Cluster) scaled(d time.Duration) time.Duration {
	return d * time.Duration(max(1, c.options.TimeScale))
}

// paced returns a timeout of the cluster multiplied by Pace.
func (c *Cluster) paced(d time.Duration) time.Duration {
	return d * time.Duration(max(1, c.options.Pace))
}

// any returns one of the nodes.
func (c *Cluster) any(r *Stream) *Node { return c.nodes[r.Intn(len(c.nodes))] }

// cut separates the links for a while. Cuts may overlap: a link works when all have ended.
func (c *Cluster) cut(r *Stream, links []link) {
	for _, l := range links {
		c.net.cut[l]++
	}
	c.later(r.Between(100*time.Millisecond, 2500*time.Millisecond), "heal", func() {
		for _, l := range links {
			c.net.cut[l]--
		}
	})
}

// cutBetween cuts all links between nodes for which apart returns true, given their indexes.
func (c *Cluster) cutBetween(r *Stream, apart func(a, b int) bool) {
	var links []link
	for i, a := range c.nodes {
		for k, b := range c.nodes {
			if i != k && apart(i, k) {
				links = append(links, link{a.id, b.id})
			}
		}
	}
	c.cut(r, links)
}

// isolate isolates one node.
func (c *Cluster) isolate(r *Stream) {
	n := r.Intn(len(c.nodes))
	c.cutBetween(r, func(a, b int) bool { return a == n || b == n })
}

// oneWay cuts one direction between two nodes, or all from one.
func (c *Cluster) oneWay(r *Stream) {
	from, to, all := r.Intn(len(c.nodes)), r.Intn(len(c.nodes)), r.Chance(300)
	c.cutBetween(r, func(a, b int) bool { return a == from && (all || b == to) })
}

// sides assigns every node to one of two sides.
func (c *Cluster) sides(r *Stream) []bool {
	side := make([]bool, len(c.nodes))
	for i := range side {
		side[i] = r.Chance(500)
	}
	return side
}

// halves divides the cluster into two sides.
func (c *Cluster) halves(r *Stream) {
	side := c.sides(r)
	c.cutBetween(r, func(a, b int) bool { return side[a] != side[b] })
}

// bridge divides the cluster into two sides, except for one node that is connected with both.
func (c *Cluster) bridge(r *Stream) {
	side, n := c.sides(r), r.Intn(len(c.nodes))
	c.cutBetween(r, func(a, b int) bool { return side[a] != side[b] && a != n && b != n })
}

// ring connects each node only with its two neighbours, in a random order.
func (c *Cluster) ring(r *Stream) {
	place := make([]int, len(c.nodes))
	for i := range place {
		k := r.Intn(i + 1)
		place[i], place[k] = place[k], i
	}
	c.cutBetween(r, func(a, b int) bool {
		d := (place[a] - place[b] + len(place)) % len(place)
		return d != 1 && d != len(place)-1
	})
}

// badLinks loses and duplicates messages for a while.
func (c *Cluster) badLinks(r *Stream) {
	c.net.Loss, c.net.Duplicates = r.Intn(200), r.Intn(200)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "good links", func() {
		c.net.Loss, c.net.Duplicates = 0, 0
	})
}

// slowLinks delays some messages for a while, past others.
func (c *Cluster) slowLinks(r *Stream) {
	c.net.Slow, c.net.SlowMax = r.Intn(200), r.Between(20*time.Millisecond, 1500*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "quick links", func() { c.net.Slow = 0 })
}

// reorder duplicates half of the messages, and delivers all in random order.
func (c *Cluster) reorder(r *Stream) {
	c.net.Duplicates, c.net.DelayMax = 500, r.Between(20*time.Millisecond, 200*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "order", func() {
		c.net.Duplicates, c.net.DelayMax = 0, delayMax
	})
}
