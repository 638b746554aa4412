package node

import (
	"time"

	"cqld/internal/cputime"
	"cqld/node/config"
)

// processorTime returns the processor time of this process so far. It does not block.
func processorTime() time.Duration { return cputime.Process() }

// diskOf returns a function that measures the free and all bytes of the file system with the data. It returns zeros if
// the file system has no size, as in tests.
func diskOf(o *config.Options) func() (free, total int64) {
	return func() (free, total int64) {
		u, err := o.FS.GetDiskUsage(o.DataDir)
		if err != nil {
			return 0, 0
		}
		return int64(u.AvailBytes), int64(u.TotalBytes)
	}
}
