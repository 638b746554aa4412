package request

const (
	// roomShare is the divisor for writes from this node's clients: they may use half of the bytes that may wait for
	// the disk.
	roomShare = 2
	// roomWaiters bounds the waiting writes. Each blocks one of the 1,024 goroutines of a server.
	roomWaiters = 512
)
