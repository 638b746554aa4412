//go:build race

package request

// raceEnabled: the race detector makes sync.Pool forget on purpose.
const raceEnabled = true
