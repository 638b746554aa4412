package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// The parts of a data directory.
const (
	rowsDir     = "data"
	metadataDir = "raft"
)

// IsDataDir reports whether a node has stored its metadata in dir, which then is the data directory of that node.
func IsDataDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, metadataDir))
	return err == nil && info.IsDir()
}

// diskKey is where storage keeps which disk it is on.
const diskKey = "node/disk"

// checkDisk compares the disk that the metadata knows with the one that the rows are on. A node whose
// rows are lost, or another's, would answer as if nobody had ever written: it must not start.
func (n *Node) checkDisk() error {
	disk := n.cluster.DiskID()
	stored, err := n.engine.GetLocal([]byte(diskKey))
	switch {
	case err != nil:
		return fmt.Errorf("node: read the disk's identity: %w", err)
	case bytes.Equal(stored, disk[:]):
		return nil
	case stored != nil:
		return fmt.Errorf("node: the rows in %s belong to another node: its metadata was lost, or directories were mixed up; "+
			"a node that lost a part of its disk must be replaced: remove %s and start it with --replace", n.opts.DataDir, n.opts.DataDir)
	case n.cluster.Self() != 0:
		return fmt.Errorf("node: the rows in %s are gone, and the ring knows of them: a node that lost a part of its disk must be "+
			"replaced: remove %s and start it with --replace", n.opts.DataDir, n.opts.DataDir)
	}
	if err := n.engine.SetLocal([]byte(diskKey), disk[:], true); err != nil {
		return fmt.Errorf("node: write the disk's identity: %w", err)
	}
	return nil
}
