// Package damage damages the disk of a simulated machine: power cuts that tear writes into sectors, and bits that
// change while no process uses the disk. All choices come from the caller's random numbers.
package damage

// Rand returns random numbers.
type Rand interface {
	// Intn returns a number in [0, n).
	Intn(n int) int
	// Chance returns true with a probability of p in a thousand.
	Chance(p int) bool
}
