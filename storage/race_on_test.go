//go:build race

package storage

// raceEnabled: sync.Pool drops at random under the race detector, so allocations say nothing.
const raceEnabled = true
