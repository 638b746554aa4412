package config

import (
	"os"
	"strconv"
	"strings"
)

// The default of the block cache, which fills as blocks are read, so an idle node does not use it.
const (
	cacheShare       = 8        // it takes 1/cacheShare of the machine's memory
	cacheBytesMin    = 64 << 20 // with less, frequently used tables are read from disk
	memoryWhenHidden = 4 << 30  // the memory assumed if the machine does not report it
)

// DefaultCacheBytes returns the size of the block cache for each of several nodes that share this machine.
func DefaultCacheBytes(nodes int) int64 {
	return max(cacheBytesMin, memoryBytes()/cacheShare/int64(nodes))
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
