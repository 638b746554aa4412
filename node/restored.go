package node

import (
	"fmt"
	"path/filepath"

	"cqld/node/admin"
	"cqld/node/datadir"
	"cqld/node/snapshot"
)

// rows returns the directory of the storage engine.
func (n *Node) rows() string { return filepath.Join(n.opts.DataDir, datadir.Rows) }

// checkCopy refuses data that were copied from a snapshot in part. Nothing of the data was opened yet.
func (n *Node) checkCopy() error {
	if err := snapshot.CheckFiles(n.opts.FS, n.rows()); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// checkRestored refuses data that were copied from a snapshot of another node. Data that were not copied from a
// snapshot pass.
func (n *Node) checkRestored() error {
	m, err := snapshot.Restored(n.opts.FS, n.rows())
	if err == nil && m != nil {
		err = m.FitsNode(n.rows(), n.cluster.HostID().String())
	}
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// acceptRestored compares restored data with the metadata, which is replayed, and makes it this node's own. Data that
// it does not describe would disappear: reactions drop the data of tables that do not exist.
func (n *Node) acceptRestored() error {
	m, err := snapshot.Restored(n.opts.FS, n.rows())
	if err == nil && m != nil {
		now := n.cluster.Metadata()
		if err = m.Fits(n.rows(), admin.ClusterID(now), now.Schema); err == nil {
			n.log.Info("data restored from a snapshot", "snapshot", m.Name, "created", m.Created)
			err = snapshot.Accept(n.opts.FS, n.rows())
		}
	}
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}
