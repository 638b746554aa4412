//go:build cgo

package node

// pebbleInGoHeap is false if Pebble allocates its block cache and memtables in C.
const pebbleInGoHeap = false
