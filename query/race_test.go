//go:build race

package query

// raceEnabled: the race detector makes sync.Pool forget on purpose.
const raceEnabled = true
