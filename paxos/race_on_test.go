//go:build race

package paxos

// raceEnabled: sync.Pool drops at random under the race detector, so allocations say nothing.
const raceEnabled = true
