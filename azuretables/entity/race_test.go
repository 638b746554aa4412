//go:build race

package entity_test

const raceEnabled = true
