//go:build race

package coordinator_test

// raceEnabled: the race detector makes sync.Pool forget, so allocations cannot be counted.
const raceEnabled = true
