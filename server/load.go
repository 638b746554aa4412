package server

// Load is what the server is doing at this moment, and has done since it was made.
type Load struct {
	Active    int   // requests being executed
	ActiveMax int   // beyond which they wait
	Queued    int   // requests that wait
	QueuedMax int   // beyond which they are refused
	Completed int64 // requests
	Refused   int64 // requests, because too many waited

	Bytes, BytesMax             int64 // of requests and of replies that are not sent
	Connections, ConnectionsMax int
}

// Load counts.
func (s *Server) Load() Load {
	l := Load{ActiveMax: s.limits.WorkersMax, QueuedMax: s.limits.QueueMax, Bytes: s.InFlightBytes(), BytesMax: s.budget.limit + s.limits.ReceivingBytesMax,
		ConnectionsMax: s.limits.ConnectionsMax}
	s.mu.Lock()
	l.Connections = len(s.mu.conns)
	s.mu.Unlock()
	p := s.workers
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Active = p.mu.running - len(p.mu.idle)
	l.Queued = len(p.mu.queue) - p.mu.head
	l.Refused = p.mu.refused
	l.Completed = p.mu.submitted - int64(l.Active) - int64(l.Queued)
	return l
}
