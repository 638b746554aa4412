//go:build race

package table

// raceEnabled: the race detector makes sync.Pool forget on purpose.
const raceEnabled = true
