package node

import (
	"os"
	"strconv"
	"strings"
)

// Shares of the machine's memory. The block cache fills as blocks are read, so an idle node uses none
// of it.
const (
	cacheShare       = 8        // one part in so many is the block cache
	cacheBytesMin    = 64 << 20 // below this, hot tables are read from disk
	memoryWhenHidden = 4 << 30  // what a machine is taken to have that does not say
)

// DefaultCacheBytes is the block cache of each of several nodes that share this machine.
func DefaultCacheBytes(nodes int) int64 {
	return max(cacheBytesMin, memoryBytes()/cacheShare/int64(nodes))
}

// memoryBytes is the machine's memory as Linux tells it.
func memoryBytes() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return memoryWhenHidden
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return memoryWhenHidden
}
