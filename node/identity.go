package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
		return fmt.Errorf("node: the data in %s belongs to another node: the metadata was lost, or directories were mixed up; "+
			"a node that lost part of its disk must be replaced: remove %s and start it with --replace", n.opts.DataDir, n.opts.DataDir)
	case n.cluster.Self() != 0:
		return fmt.Errorf("node: the data in %s is missing, although this node is a member: a node that lost part of its disk must be "+
			"replaced: remove %s and start it with --replace", n.opts.DataDir, n.opts.DataDir)
	}
	if err := n.engine.SetLocal([]byte(diskKey), disk[:], true); err != nil {
		return fmt.Errorf("node: write the disk's identity: %w", err)
	}
	return nil
}
