//go:build race

package query

// raceEnabled: the race detector makes sync.Pool drop items.
const raceEnabled = true
