//go:build race

package replica

// raceEnabled: sync.Pool drops items randomly under the race detector, so allocations cannot be counted.
const raceEnabled = true
