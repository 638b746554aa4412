package node

import (
	"cqld/schema"
)

func (n *Node) schema() *schema.Schema { return n.cluster.Metadata().Schema }
