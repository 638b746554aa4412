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
	pageShare        = 8        // pages of requests take one part in so many of what the cache takes, within
	pageMemoryMin    = 64 << 20 // the default of package replica, and
	pageMemoryMax    = 256 << 20
	memoryWhenHidden = 4 << 30 // what a machine is taken to have that does not say
)

// DefaultCacheBytes is the block cache of each of several nodes that share this machine.
func DefaultCacheBytes(nodes int) int64 {
	return max(cacheBytesMin, memoryBytes()/cacheShare/int64(nodes))
}

// pageMemory is what the pages of requests to this replica may take, on a node with a block cache of so many bytes.
func pageMemory(cacheBytes int64) int64 {
	return min(max(cacheBytes/pageShare, pageMemoryMin), pageMemoryMax)
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
