//go:build race

package coordinator_test

// raceEnabled: the race detector makes sync.Pool drop items, so allocations cannot be counted.
const raceEnabled = true
