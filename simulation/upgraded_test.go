package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/clusterversion"
	"cqld/simulation/meetings"
)

// upgradeOptions makes a run one of a ring of two releases.
func upgradeOptions(o *Options) {
	o.Meet, o.Points = true, nil
	o.Workloads = strings.Fields("cas churn counter batch upgraded")
	o.Extra = []workloadKind{upgradedKind()}
	o.Made = func(c *Cluster) {
		r := &twoReleases{c: c, installed: map[*Node]clusterversion.Range{}}
		c.releases, c.net.Encode = r, r.encode
	}
	o.FaultKinds = strings.Fields("restart kill power-all restart-storm join leave move repair pause isolate stop " +
		"wiped-disk")
	o.Faults, o.Clients = 12*time.Second, 3
	if o.Factor == o.Nodes {
		o.Nodes, o.Factor = 4, 3 // a node can leave
	}
}

// TestUpgrades upgrades rings node by node, back and forth, and finalizes, while nodes are restarted and killed, the
// ring changes, and clients write conditionally, count and change the schema.
func TestUpgrades(t *testing.T) {
	met := metIn(t, 0, upgradeSeeds, func(seed uint64) Options {
		o := DefaultOptions(seed)
		upgradeOptions(&o)
		return o
	})
	for _, op := range []string{meetings.Restart, meetings.Kill, meetings.Join, meetings.Decommission, meetings.Move,
		meetings.Repair, meetings.SchemaChange, meetings.ConditionalChange, meetings.Hints} {
		if met[meetings.PairOf(meetings.RollingUpgrade, op)] == 0 {
			t.Errorf("%s and %s did not meet in %d seeds", meetings.RollingUpgrade, op, upgradeSeeds)
		}
	}
}

const upgradeSeeds = 6

// TestUpgradesNeedRecords shows that the check finds a cluster version that rises while nodes of the old release serve.
func TestUpgradesNeedRecords(t *testing.T) {
	mustFail(t, 0, 5, func(o *Options) {
		upgradeOptions(o)
		// Few faults: nodes that cannot read messages make the rest of the run long.
		o.Workloads, o.FaultKinds, o.Faults = []string{"upgraded"}, []string{"restart"}, 12*time.Second
		made := o.Made
		o.Made = func(c *Cluster) {
			made(c)
			c.releases.(*twoReleases).unrecorded = true
		}
	}, "gets a message in form 2")
}
