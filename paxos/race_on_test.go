//go:build race

package paxos

// raceEnabled: sync.Pool drops items randomly under the race detector, so allocations cannot be counted.
const raceEnabled = true
