package node

import (
	"cqld/internal/memory"
	"cqld/node/config"
)

// requestBytes is the default of native_transport_max_request_data_in_flight: 12 frames of the largest size, or pages of 1 MiB, with
// their results and replies, for 60 requests at a time.
const requestBytes = 192 << 20

// newRequestMemory returns the memory that the requests of all protocols share, and the pages that are read for other nodes. A request may
// hold half of it, and at least a frame of the largest size with its decoded values.
func newRequestMemory(o *config.Options) *memory.Pool {
	bytes := o.ClientLimits.BytesInFlight
	if bytes == 0 {
		bytes = requestBytes
	}
	return memory.New(memory.Options{Limits: memory.Limits{Bytes: bytes, Reserve: max(bytes/2, 2*int64(o.MaxFrameBytes))}})
}
