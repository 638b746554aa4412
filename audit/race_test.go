//go:build race

package audit

// raceEnabled reports whether the race detector, which makes sync.Pool drop objects, is on.
const raceEnabled = true
