//go:build race

package request

// raceEnabled reports that the race detector is on, with which sync.Pool drops items on purpose.
const raceEnabled = true
