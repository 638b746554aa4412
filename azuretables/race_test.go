//go:build race

package azuretables

// raceEnabled: the race detector makes sync.Pool forget on purpose.
const raceEnabled = true
