package messaging

import (
	"crypto/sha256"
	"slices"
)

// Lineage lists the recoveries that led to the cluster of a node. A recovery begins a new cluster under the same name.
// Its nodes and the nodes of the previous cluster refuse each other, because the previous cluster may change metadata
// that the new one does not have.
type Lineage struct {
	// Recoveries identify the recoveries, oldest first. None means that the cluster was never recovered.
	Recoveries [][16]byte
	// Notice is the answer to a node of a cluster before the last recovery.
	Notice string
}

// clusterID is a hash of the name of a cluster and of its last recovery.
type clusterID [16]byte

// identities are the cluster of a node, and the clusters with its name that came before.
type identities struct {
	present clusterID
	// unrecovered is the cluster that a node without an id names: it knows no recovery yet.
	unrecovered clusterID
	earlier     []clusterID // the first is unrecovered, if there are any
	notice      string
}

// clusterIDOf returns the id of a cluster; a cluster that was never recovered has no recovery.
func clusterIDOf(name string, recovery []byte) clusterID {
	// The prefix keeps the hash apart from other hashes of the name. A name contains no zero byte.
	text := append([]byte("cqld cluster "), name...)
	if len(recovery) > 0 {
		text = append(append(text, 0), recovery...)
	}
	sum := sha256.Sum256(text)
	return clusterID(sum[:])
}

// identitiesOf returns the identities of a cluster with a lineage.
func identitiesOf(name string, l Lineage) *identities {
	i := &identities{present: clusterIDOf(name, nil), notice: l.Notice}
	i.unrecovered = i.present
	for _, id := range l.Recoveries {
		i.earlier = append(i.earlier, i.present)
		i.present = clusterIDOf(name, id[:])
	}
	return i
}

// precedes reports whether id is a cluster before the last recovery.
func (i *identities) precedes(id clusterID) bool { return slices.Contains(i.earlier, id) }

// SetLineage sets the recoveries of this node's cluster. It is called before SetSelf: a node without an id belongs to
// no cluster yet. Connections that nodes of another recovery have opened are no longer bound.
func (t *StreamTransport) SetLineage(l Lineage) {
	i := identitiesOf(t.opts.Cluster, l)
	t.identities.Store(i)
	t.conns.setCluster(i.present)
}
