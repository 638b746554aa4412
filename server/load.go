package server

// Load contains the current state of the server and its totals since it was created. It is not one consistent snapshot,
// except for the workers' figures. Waiting and executing requests of one connection count individually.
type Load struct {
	Active    int   // requests being executed
	ActiveMax int   // above which they wait
	Queued    int   // requests waiting for a worker
	QueuedMax int   // above which they are refused
	Completed int64 // requests
	Refused   int64 // requests refused because too many waited

	Bytes, BytesMax             int64 // of requests, and of replies that are not sent yet
	Connections, ConnectionsMax int
}

// Load returns the current figures.
func (s *Server) Load() Load {
	l := Load{ActiveMax: s.limits.WorkersMax, QueuedMax: s.limits.QueueMax, Bytes: s.InFlightBytes(),
		BytesMax:       s.memory.Limits().Bytes + s.limits.ReceivingBytesMax,
		ConnectionsMax: s.limits.ConnectionsMax}
	s.mu.Lock()
	l.Connections = len(s.mu.conns)
	s.mu.Unlock()
	p := s.workers
	// All figures of the workers under one lock, so that Completed is never negative.
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Active = p.mu.running - len(p.mu.idle)
	l.Queued = len(p.mu.queue) - p.mu.head
	l.Refused = p.mu.refused
	// What was submitted and is neither active nor queued has been completed.
	l.Completed = p.mu.submitted - int64(l.Active) - int64(l.Queued)
	return l
}
