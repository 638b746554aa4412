package node

// Bounds of the memory of pages of requests.
const (
	pageShare     = 8        // they take 1/pageShare of the size of the block cache, within
	pageMemoryMin = 64 << 20 // the default of package replica, and
	pageMemoryMax = 256 << 20
)

// pageMemory returns the limit of memory for pages of requests to this replica, on a node with a block cache of cacheBytes
// bytes.
func pageMemory(cacheBytes int64) int64 {
	return min(max(cacheBytes/pageShare, pageMemoryMin), pageMemoryMax)
}
