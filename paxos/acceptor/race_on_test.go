//go:build race

package acceptor

// raceEnabled: sync.Pool drops items randomly under the race detector, so allocations cannot be counted.
const raceEnabled = true
