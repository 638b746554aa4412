//go:build race

package tier

// race is set in builds with the race detector.
const race = true
