package node

import (
	"cqld/cluster"
	"cqld/storage"
)

// traceBytes returns the disk space of the traces on this node. ok is false if it cannot be measured. Tables that do
// not exist yet count as empty. The size is in bytes, is measured from the files of the two tables of system_traces,
// and lacks what is in memtables. It covers this node's replicas only, so the limit applies to each node.
func traceBytes(c *cluster.Cluster, engine *storage.Engine) (bytes int64, ok bool) {
	for _, name := range []string{"sessions", "events"} {
		t := c.Metadata().Schema.Table("system_traces", name)
		if t == nil {
			continue
		}
		size, err := engine.TableSize(t.StorageID)
		if err != nil {
			return 0, false // the engine is closed or has failed
		}
		bytes += size.Bytes
	}
	return bytes, true
}
