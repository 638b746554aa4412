package node

import (
	"cqld/internal/memory"
	"cqld/node/config"
)

// newRequestMemory returns the memory that the requests of all protocols share, and the pages that are read for other nodes. The part for
// pages is the reserve: a request may hold that, but at most half of the bound, and at least a frame of the largest size with its
// decoded values.
func newRequestMemory(o *config.Options) *memory.Pool {
	bytes := o.ClientLimits.BytesInFlight
	return memory.New(memory.Options{Limits: memory.Limits{Bytes: bytes,
		Reserve: max(min(o.Memory.PageMemory(), bytes/2), 2*int64(o.MaxFrameBytes))}})
}
