package datadir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"cqld/ring"
	"cqld/storage"
)

// The names in a data directory are part of its format: scripts of operators and IsDataDir use them.
const (
	Rows     = "data"          // a directory
	Metadata = "raft"          // a directory
	Recovery = "recovery.json" // a copy of the file of the last recovery in which the node took part
)

// IsDataDir reports whether dir contains the metadata of a node, and therefore is a data directory. An error of the
// file system, for example a missing permission, counts as no.
func IsDataDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, Metadata))
	return err == nil && info.IsDir()
}

// diskKey is the key under which storage keeps the id of the disk. Local keys are outside of all tables: they are not
// replicated, streamed or repaired.
const diskKey = "node/disk"

// Identity compares what a data directory says about its node with its metadata and its configuration. Two databases
// are compared because they can be lost separately: rows without metadata belong to no member, and metadata without
// rows would answer reads with nothing.
type Identity struct {
	Dir    string
	Engine *storage.Engine
	Disk   [16]byte // the id of the disk in the metadata
	Member bool     // the node was a member when it started
}

// CheckDisk compares the disk id in the metadata with the one stored with the rows. A node whose rows were lost, or
// replaced by the rows of another node, must not start: it would answer as if nothing had been written.
func (i Identity) CheckDisk() error {
	stored, err := i.Engine.GetLocal([]byte(diskKey))
	switch {
	case err != nil:
		return fmt.Errorf("node: read the disk's identity: %w", err)
	// The usual start.
	case bytes.Equal(stored, i.Disk[:]):
		return nil
	case stored != nil:
		return fmt.Errorf("node: the data in %s belongs to another node: the metadata was lost, or directories were "+
			"mixed up; a node that lost part of its disk must be replaced: remove %s and start it with "+
			"--replace",
			i.Dir, i.Dir)
	// stored is nil from here on. A member has written its id at its first start.
	case i.Member:
		return fmt.Errorf("node: the data in %s is missing, although this node is a member: a node that lost part "+
			"of its disk must be "+
			"replaced: remove %s and start it with --replace", i.Dir, i.Dir)
	}
	// true syncs: the id must not be lost while rows that are written later survive.
	if err := i.Engine.SetLocal([]byte(diskKey), i.Disk[:], true); err != nil {
		return fmt.Errorf("node: write the disk's identity: %w", err)
	}
	return nil
}

// placeKey is the key under which storage keeps the place of this node. The value is a Place as JSON, for example
// {"Cluster":"Test Cluster","Datacenter":"dc1","Rack":"r1"}.
const placeKey = "node/place"

// Place is what a member cannot change: data is placed by the data center, the rack and the tokens, and nodes with
// another cluster name do not communicate.
type Place struct{ Cluster, Datacenter, Rack string }

// CheckPlace compares the configured place with the place of the last start, before this node communicates with others:
// with another cluster name it would serve clients alone. A node that is no member yet may change its place.
func (i Identity) CheckPlace(configured Place) error {
	stored, err := i.Engine.GetLocal([]byte(placeKey))
	if err != nil {
		return fmt.Errorf("node: read the place of this node: %w", err)
	}
	if stored != nil && i.Member {
		var last Place
		if err := json.Unmarshal(stored, &last); err != nil {
			return fmt.Errorf("node: read the place of this node: %w", err)
		}
		return last.Check(configured)
	}
	// A node that has not joined yet overwrites the place of its last attempt.
	text, err := json.Marshal(configured)
	if err == nil {
		err = i.Engine.SetLocal([]byte(placeKey), text, true)
	}
	if err != nil {
		return fmt.Errorf("node: write the place of this node: %w", err)
	}
	return nil
}

// Check returns why a member at place p cannot be configured with another one, or nil. Messages begin as in Cassandra.
func (p Place) Check(configured Place) error {
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

// CheckTokens compares the configured number of tokens with the entry of this node in the metadata. A node that moved,
// or replaced another one, may have another number of tokens than it was configured with when it joined. Only a node in
// the state Normal is checked: the number changes while it moves. Nor is
// one checked whose tokens were changed one by one.
func CheckTokens(own *ring.Node, configured int) error {
	if tokens := len(own.Tokens); own.State == ring.Normal && !own.Reassigned && tokens != configured {
		return fmt.Errorf("node: cannot change the number of tokens from %d to %d: set num_tokens: %[1]d, or "+
			"decommission this node and let it join again with an empty data directory", tokens, configured)
	}
	return nil
}
