package node

import (
	"cqld/internal/memory"
	"cqld/messaging"
	"cqld/node/config"
	"cqld/rebalance"
	"cqld/request"
	"cqld/storage"
)

// messagingLimits returns the bounds of the connections with other nodes: half of their part is for frames that are
// received, a quarter for requests that wait for a worker, and a quarter for what is queued for all peers. WorkBytes
// keeps its default if that is smaller. The arithmetic, for a part P: ReceiveBytes P/2 + WorkBytes ≤ P/4 + QueuedTotal
// P/4 ≤ P.
func messagingLimits(o *config.Options) messaging.Limits {
	l, part := messaging.DefaultLimits(), o.Memory.Division.Part[memory.Internode]
	l.ReceiveBytes = int(part / 2)
	l.WorkBytes = int(min(part/4, int64(l.WorkBytes)))
	l.QueuedTotal = int(part / 4)
	l.Workers = o.Memory.Division.Workers()
	return l
}

// newRequestMemory returns the memory that the requests of all protocols share, and the pages that are read for other
// nodes. The division has made it at most three quarters of the part for requests.
func newRequestMemory(o *config.Options) *memory.Pool {
	// Reserve is kept for one request at a time, so that a request that needs more than is free can proceed eventually.
	return memory.New(memory.Options{Limits: memory.Limits{Bytes: o.ClientLimits.BytesInFlight,
		Reserve: o.Memory.Division.Reserve()}})
}

// newRoom returns the memory of the writes of all protocols that wait for the disk. It is the smaller of two bounds:
// what storage may queue, and the part of the division. A write that waits here has not been sent to any replica, so
// refusing it is safe: the client gets Overloaded.
func newRoom(o *config.Options) *memory.Pool {
	return request.RoomForWrites(min(pendingBytes(o), o.Memory.Division.Part[memory.Writes]), memory.Options{})
}

// pendingBytes returns how many bytes of writes may wait for the disk.
func pendingBytes(o *config.Options) int64 {
	return min(o.Memory.Division.MemTable(), storage.PendingBytesMax)
}

// streamLimits returns the bounds of streams. Blocks that wait take half of the part for background work at most. A
// truncation waits for streams of the table, at most twice its own timeout. A session holds blocks of BlockBytes each,
// and HeldMax counts blocks, so the division of two byte counts is a number.
func streamLimits(o *config.Options) rebalance.Limits {
	return rebalance.Limits{BytesPerSecond: o.Background.StreamThroughput, TruncationWait: 2 * o.Timeouts.Truncate,
		HeldMax: int(min(o.Memory.Division.BackgroundBlock()/rebalance.BlockBytes, rebalance.HeldMax))}
}
