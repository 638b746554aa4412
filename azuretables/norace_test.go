//go:build !race

package azuretables

const raceEnabled = false
