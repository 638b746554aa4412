package node

// traceBytes returns the disk space of the traces on this node.
func (n *Node) traceBytes() (bytes int64, ok bool) {
	for _, name := range []string{"sessions", "events"} {
		t := n.cluster.Metadata().Schema.Table("system_traces", name)
		if t == nil {
			continue
		}
		size, err := n.engine.TableSize(t.StorageID)
		if err != nil {
			return 0, false // the engine is closed or has failed
		}
		bytes += size.Bytes
	}
	return bytes, true
}
