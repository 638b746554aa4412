package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"cqld/ring"
)

// The subdirectories of a data directory.
const (
	rowsDir     = "data"
	metadataDir = "raft"
)

// IsDataDir reports whether dir contains the metadata of a node, and therefore is a data directory.
func IsDataDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, metadataDir))
	return err == nil && info.IsDir()
}

// diskKey is the key under which storage keeps the id of the disk.
const diskKey = "node/disk"

// checkDisk compares the disk id in the metadata with the one stored with the rows. A node whose rows were lost, or
// replaced by those of another node, must not start: it would answer as if nothing had been written.
func (n *Node) checkDisk() error {
	disk := n.cluster.DiskID()
	stored, err := n.engine.GetLocal([]byte(diskKey))
	switch {
	case err != nil:
		return fmt.Errorf("node: read the disk's identity: %w", err)
	case bytes.Equal(stored, disk[:]):
		return nil
	case stored != nil:
		return fmt.Errorf("node: the data in %s belongs to another node: the metadata was lost, or directories were "+
			"mixed up; "+
			"a node that lost part of its disk must be replaced: remove %s and start it with --replace",
			n.opts.DataDir, n.opts.DataDir)
	case n.cluster.Self() != 0:
		return fmt.Errorf("node: the data in %s is missing, although this node is a member: a node that lost part "+
			"of its disk must be "+
			"replaced: remove %s and start it with --replace", n.opts.DataDir, n.opts.DataDir)
	}
	if err := n.engine.SetLocal([]byte(diskKey), disk[:], true); err != nil {
		return fmt.Errorf("node: write the disk's identity: %w", err)
	}
	return nil
}

// placeKey is the key under which storage keeps the place of this node.
const placeKey = "node/place"

// place is what a member cannot change: data is placed by the data center, the rack and the tokens, and nodes with
// another cluster name do not communicate.
type place struct{ Cluster, Datacenter, Rack string }

// checkPlace compares the configured place with that of the last start, before this node communicates with others: with
// another cluster name it would serve clients alone. A node that is no member yet may change its place.
func (n *Node) checkPlace() error {
	n.returning = n.cluster.Self() != 0
	want := place{n.opts.ClusterName, n.opts.Datacenter, n.opts.Rack}
	stored, err := n.engine.GetLocal([]byte(placeKey))
	if err != nil {
		return fmt.Errorf("node: read the place of this node: %w", err)
	}
	if stored != nil && n.returning {
		var last place
		if err := json.Unmarshal(stored, &last); err != nil {
			return fmt.Errorf("node: read the place of this node: %w", err)
		}
		return last.check(want)
	}
	text, err := json.Marshal(want)
	if err == nil {
		err = n.engine.SetLocal([]byte(placeKey), text, true)
	}
	if err != nil {
		return fmt.Errorf("node: write the place of this node: %w", err)
	}
	return nil
}

// check returns why a member at place p cannot be configured with another one, or nil. Messages begin as in Cassandra.
func (p place) check(configured place) error {
	const rejoin = "or decommission this node and let it join again with an empty data directory"
	switch {
	case configured.Cluster != p.Cluster:
		return fmt.Errorf("node: saved cluster name %s != configured name %s: set cluster_name: %[1]s, or remove "+
			"the data directory to "+
			"join another cluster", p.Cluster, configured.Cluster)
	case configured.Datacenter != p.Datacenter:
		return fmt.Errorf("node: cannot start node if its data center (%s) differs from previous data center (%s): "+
			"set datacenter: %[2]s, %s",
			configured.Datacenter, p.Datacenter, rejoin)
	case configured.Rack != p.Rack:
		return fmt.Errorf("node: cannot start node if its rack (%s) differs from previous rack (%s): set rack: "+
			"%[2]s, %s",
			configured.Rack, p.Rack, rejoin)
	}
	return nil
}

// checkMember compares the configuration with the entry of this node in the metadata. A node that moved, or replaced
// another one, may have another number of tokens than it was configured with when it joined.
func (n *Node) checkMember() error {
	own := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	if own == nil {
		return nil
	}
	if err := (place{n.opts.ClusterName, own.Datacenter, own.Rack}).check(place{n.opts.ClusterName, n.opts.Datacenter,
		n.opts.Rack}); err != nil {
		return err
	}
	if tokens := len(own.Tokens); n.returning && own.State == ring.Normal && tokens != n.opts.NumTokens {
		return fmt.Errorf("node: cannot change the number of tokens from %d to %d: set num_tokens: %[1]d, or "+
			"decommission this node and let it "+
			"join again with an empty data directory", tokens, n.opts.NumTokens)
	}
	return nil
}
