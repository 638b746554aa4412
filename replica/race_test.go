//go:build race

package replica

// raceEnabled reports that the race detector is on, with which sync.Pool drops items on purpose.
const raceEnabled = true
