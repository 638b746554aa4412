package node

import (
	"cqld/node/tablestats"
	"cqld/schema"
)

// snapshotEngine is storage as this node's replica uses it, with a snapshot before a TRUNCATE removes rows. The
// commands of the node exist before the first request.
type snapshotEngine struct {
	*tablestats.Engine
	node *Node
}

// Truncate implements replica.Engine. Without the snapshot, the rows stay and TRUNCATE fails.
func (e *snapshotEngine) Truncate(id schema.StorageID) error {
	if err := e.node.commands.Snapshots.BeforeTruncate(id); err != nil {
		return err
	}
	return e.Engine.Truncate(id)
}

// tableDropped is called before the data of a dropped table are removed. After an error, it is called again later.
func tableDropped(n *Node, before *schema.Schema, id schema.StorageID) error {
	if err := n.commands.Snapshots.BeforeDrop(before, id); err != nil {
		return err
	}
	n.measured.ForgetTable(id)
	return nil
}
