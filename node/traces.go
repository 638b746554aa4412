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

func (c figuresCollector) traces(m metricSink) {
	stored, refused := c.n.traces.Stats()
	m.gauge("traces_stored_bytes", "Disk space of the traces on this node when it was last measured.", stored)
	m.counter("traces_refused_total", "Traces that were not stored, because trace_storage_limit was reached.", refused)
}
