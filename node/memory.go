package node

import (
	"os"
	"strconv"
	"strings"
)

// Shares of the machine's memory. The block cache fills as blocks are read, so an idle node does not use it.
const (
	cacheShare       = 8        // the block cache takes 1/cacheShare of the memory
	cacheBytesMin    = 64 << 20 // with less, frequently used tables are read from disk
	pageShare        = 8        // pages of requests take 1/pageShare of the size of the block cache, within
	pageMemoryMin    = 64 << 20 // the default of package replica, and
	pageMemoryMax    = 256 << 20
	memoryWhenHidden = 4 << 30 // the memory assumed if the machine does not report it
)

// DefaultCacheBytes returns the size of the block cache for each of several nodes that share this machine.
func DefaultCacheBytes(nodes int) int64 {
	return max(cacheBytesMin, memoryBytes()/cacheShare/int64(nodes))
}

// pageMemory returns the limit of memory for pages of requests to this replica, on a node with a block cache of cacheBytes
// bytes.
func pageMemory(cacheBytes int64) int64 {
	return min(max(cacheBytes/pageShare, pageMemoryMin), pageMemoryMax)
}

// memoryBytes returns the machine's memory as reported by Linux.
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
