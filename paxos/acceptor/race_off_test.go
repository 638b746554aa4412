//go:build !race

package acceptor

const raceEnabled = false
