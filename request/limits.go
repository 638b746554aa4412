package request

const (
	// roomShare is the part of the bytes that may wait for the disk which writes of this node's clients use: half.
	roomShare = 2
	// roomWaiters bounds the writes that wait: each keeps a goroutine of a server, which has 1,024.
	roomWaiters = 512
)
