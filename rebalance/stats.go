package rebalance

// StreamStats contains the statistics of Streams.
type StreamStats struct {
	Sessions  int   // under way or waiting on this node
	SentBytes int64 // sent to other nodes since the start of the process
}

// Stats returns the present statistics.
func (s *Streams) Stats() StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamStats{Sessions: len(s.mu.machine.sessions), SentBytes: s.mu.sent}
}

// DropStats contains the statistics of Drops since the start of the process.
type DropStats struct {
	Ranges int64 // dropped, counted for each table
	Bytes  int64 // estimate of their size on disk
}

// Stats returns the present statistics.
func (d *Drops) Stats() DropStats { return DropStats{Ranges: d.ranges.Load(), Bytes: d.bytes.Load()} }
