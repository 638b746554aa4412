//go:build !cgo

package node

// pebbleInGoHeap is true if Pebble allocates its block cache and memtables in Go's heap, as releases do.
const pebbleInGoHeap = true
