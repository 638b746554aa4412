package simulation

import (
	"fmt"
	"strings"

	"cqld/clusterversion"
	"cqld/messaging"
	"cqld/simulation/network"
)

// twoReleases is a ring that is upgraded. The old release supports cluster version 1, and the new one version 2
// besides, which encodes all messages between members in another form. A node writes the form of the cluster version in
// its metadata, and reads the forms of all versions that its release supports. Join requests keep the first form for
// ever, so that a node of any release gets an answer.
type twoReleases struct {
	c *Cluster
	// installed are the builds on the machines. A new machine gets the old one until the ring has the new version.
	installed map[*Node]clusterversion.Range
	// unrecorded lets nodes of the old release claim that they support what the new one does.
	unrecorded bool
}

func oldRelease() clusterversion.Range { return clusterversion.Range{Min: 1, Max: 1} }
func newRelease() clusterversion.Range { return clusterversion.Range{Min: 1, Max: 2} }

// on returns the build on a machine.
func (r *twoReleases) on(n *Node) clusterversion.Range {
	if _, ok := r.installed[n]; !ok {
		r.installed[n] = oldRelease()
		for _, other := range r.c.nodes {
			// The process of n itself may be starting, without metadata.
			if l := other.process; l != nil && l.cluster != nil && l.cluster.Metadata().ClusterVersion > 1 {
				r.installed[n] = newRelease()
			}
		}
	}
	return r.installed[n]
}

// versions implements releases.
func (r *twoReleases) versions(n *Node) clusterversion.Range {
	// Not before the clients start: the first node would create a cluster of the new version.
	if build := r.on(n); !r.unrecorded || r.c.began == 0 {
		return build
	}
	return newRelease()
}

// encode implements network.Network.Encode. A form is its own inverse, and any difference that a reader of the other
// one would not ignore. Only a process that does not serve yet may get a message that it cannot read: it is about to be
// refused.
func (r *twoReleases) encode(p network.Process, verb messaging.Verb, payload []byte) ([]byte, network.Decoder) {
	from, form := p.(*process), clusterversion.V1
	if from.cluster != nil && verb != messaging.VerbJoin {
		form = from.cluster.Metadata().ClusterVersion
	}
	recode := func(b []byte) []byte {
		if !form.Enables(newRelease().Max) {
			return b
		}
		out := make([]byte, len(b))
		for i, x := range b {
			out[i] = ^x
		}
		return out
	}
	return recode(payload), func(p network.Process, b []byte) ([]byte, bool) {
		to := p.(*process)
		n := to.node
		if r.on(n).Includes(form) {
			return recode(b), true
		}
		r.c.count("messages that a starting node of the old release cannot read")
		if to.serves() {
			r.c.fail("node %d, which supports %v, serves and gets a message in form %d", n.id, r.on(n), form)
		}
		return nil, false
	}
}

// refused implements releases: the operator installs the new release, as the error says.
func (r *twoReleases) refused(n *Node, err error) bool {
	if r.on(n) != oldRelease() || !strings.Contains(err.Error(), "start a newer build") {
		return false
	}
	r.installed[n] = newRelease()
	r.c.count("nodes of the old release refused")
	r.c.kernel.Trace(fmt.Sprint("upgrade ", n.id))
	return true
}
