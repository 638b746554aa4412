package simulation

import (
	"runtime/debug"
	"testing"
)

// memoryLimit is far more than one cluster needs.
const memoryLimit = 3 << 30

// TestMain bounds the memory of the tests. The runtime keeps each sync.Pool until two collections have passed, and
// coordinators contain some: every collection finds the clusters of all runs since the last one alive. Without a limit,
// the heap grows to 18 GB.
func TestMain(m *testing.M) {
	debug.SetMemoryLimit(memoryLimit)
	m.Run()
}
