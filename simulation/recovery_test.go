package simulation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/metadata"
	"cqld/cluster/recovery"
	"cqld/simulation/kernel"
	"cqld/storage/faultfs"
)

// TestSimRecovery kills the majority of the voters for good, among them one replica of four, recovers the rest, and
// continues: acknowledged writes and conditional changes stay, while other faults strike. The power fails at any step
// of the recovery, survivors start before others have taken part, and a lost node returns with its old data.
func TestSimRecovery(t *testing.T) {
	n := alone()
	total := runAlone(t, n, 20, recoveryOptions)
	for _, what := range []string{"recoveries", "recoveries interrupted", "lost nodes returned"} {
		if n >= 10 && total.Counted[what] == 0 {
			t.Errorf("no %s in %d seeds", what, n)
		}
	}
}

// recoveryOptions returns a ring with voters in a data center that has no replicas, so that most of the voters, and
// only one of four replicas, can be lost.
func recoveryOptions(o *Options) {
	o.Nodes, o.NodesMost, o.Factor, o.Datacenters, o.Faults = 8, 10, 4, []int{0, 4}, 14*time.Second
	o.Workloads = [][]string{{"register"}, {"append"}, {"cas"}, {"set"}}[o.Seed%4]
	o.FaultKinds = [][]string{nil, {"kill"}, {"isolate", "pause"}, {"power-one", "stop"}}[o.Seed/4%4]
	o.Points, o.Levels, o.ConvergeBy, o.TornWrites = nil, false, ByReads, o.Seed%2 == 0
	o.Made = func(c *Cluster) { (&recoverer{c: c, r: kernel.NewStream(c.options.Seed, "recovery")}).await() }
}

// recoverer is the operator of a cluster that has lost the majority of its voters.
type recoverer struct {
	c         *Cluster
	r         *kernel.Stream
	lost      []*Node
	survivors []*Node
	file      *recovery.File
}

// after schedules a step. It is not skipped when the cluster is healed: a recovery that has begun must end.
func (v *recoverer) after(d time.Duration, f func()) { v.c.kernel.After(d, "recovery", f) }

// await waits until the clients have started.
func (v *recoverer) await() {
	v.after(time.Second, func() {
		if v.c.began == 0 {
			v.await()
			return
		}
		v.after(v.r.Between(time.Second, 4*time.Second), v.lose)
	})
}

// lose kills the first data center, and a voter of the second one, for good.
func (v *recoverer) lose() {
	c := v.c
	var replica *Node
	for _, n := range c.nodes {
		switch {
		case n.dc == datacenterName(1):
			v.lost = append(v.lost, n)
		// The oldest members vote.
		case replica == nil && n.process.serves():
			replica = n
			v.lost = append(v.lost, n)
		default:
			v.survivors = append(v.survivors, n)
		}
	}
	c.losing = true
	for _, n := range v.lost {
		n.crash(true)
		n.dead = true
	}
	v.after(v.r.Between(0, 2*time.Second), v.stop)
}

// stop stops the survivors, or cuts their power, and begins the recovery. Other faults must not start them meanwhile.
func (v *recoverer) stop() {
	for _, n := range v.survivors {
		n.crash(v.r.Chance(500))
		n.faults.Heal()
		n.dead = true
	}
	v.prepare()
	for i, n := range v.survivors {
		v.after(time.Duration(i)*v.r.Between(0, 300*time.Millisecond), func() { v.adopt(n) })
	}
}

// prepare makes the file of the recovery on the survivor with the newest metadata.
func (v *recoverer) prepare() {
	var states []*recovery.State
	var reports []*recovery.Report
	for _, n := range v.survivors {
		s, r, err := inspect(n.disk)
		if err != nil {
			v.c.fail("node %d cannot be inspected: %v", n.id, err)
			return
		}
		states, reports = append(states, s), append(reports, r)
	}
	own := recovery.Newest(reports)
	others := append(append([]*recovery.Report{}, reports[:own]...), reports[own+1:]...)
	id := metadata.RecoveryID{byte(v.r.Intn(256)), 1}
	plan, err := recovery.Prepare(states[own], others, recovery.Draw{ID: id, At: int64(v.c.kernel.Now() / time.Second)},
		true)
	if err == nil {
		v.file, err = plan.File()
	}
	if err != nil {
		v.c.fail("no recovery: %v", err)
		return
	}
	if len(plan.Lost) != len(v.lost) {
		v.c.fail("%d of %d lost nodes are declared lost", len(plan.Lost), len(v.lost))
	}
	v.c.count("recoveries")
}

// inspect reads the metadata log on the disk of a machine without a process.
func inspect(disk vfs.FS) (*recovery.State, *recovery.Report, error) {
	d, err := recovery.Open(raftDir, disk)
	if err != nil {
		return nil, nil, err
	}
	s, err := d.Read()
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, nil, err
	}
	r, err := recovery.Inspect(s)
	return s, r, err
}

// adopt makes a survivor take part, and starts it. The power may fail before any operation on the log; the command is
// repeated then.
func (v *recoverer) adopt(n *Node) {
	if v.file == nil {
		return
	}
	cut := v.r.Chance(600)
	if v.execute(n, cut, v.r.Intn(8)) {
		v.c.count("recoveries interrupted")
		v.after(v.r.Between(0, 500*time.Millisecond), func() { v.adopt(n) })
		return
	}
	n.dead = false
	n.start()
	if n == v.survivors[len(v.survivors)-1] {
		v.after(v.r.Between(0, 3*time.Second), v.returnLost)
	}
}

// execute executes the command. If cut is set, the power fails before the given number of operations on the log: the
// disk becomes what it was then, and execute returns true. Errors of the disk are not injected, because Pebble repeats
// a failed flush forever.
func (v *recoverer) execute(n *Node, cut bool, operations int) bool {
	var after *vfs.MemFS
	disk := faultfs.Wrap(n.disk)
	disk.Fail(func(op faultfs.Op, name string) error {
		// The order of other operations is not determined, because Pebble has goroutines, nor is the set of files, so
		// that torn writes would be drawn differently in each run.
		if strings.HasSuffix(name, ".log") && (op == faultfs.OpWrite || op == faultfs.OpSync) {
			if operations--; cut && operations == 0 {
				after = n.disk.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		return nil
	})
	d, err := recovery.Open(raftDir, disk)
	if err == nil {
		_, err = d.Update(v.file)
		err = errors.Join(err, d.Close())
	}
	if err != nil {
		v.c.fail("node %d cannot take part in the recovery: %v", n.id, err)
	}
	// What was not synced is lost, also after a success.
	interrupted := after != nil
	if !interrupted {
		after = n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	n.disk = after
	return interrupted
}

// returnLost starts a lost machine with its old disk for a while. It must not serve.
func (v *recoverer) returnLost() {
	n := v.lost[v.r.Intn(len(v.lost))]
	n.dead = false
	n.start()
	v.c.count("lost nodes returned")
	for i := range 30 {
		v.after(time.Duration(i)*100*time.Millisecond, func() {
			if n.process.serves() {
				v.c.fail("node %d serves although it was declared lost", n.id)
			}
		})
	}
	v.after(3*time.Second, func() {
		n.crash(true)
		n.dead = true
		v.c.kernel.Trace(fmt.Sprint("lost again ", n.id))
	})
}
