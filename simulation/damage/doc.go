// Package damage damages the disk of a simulated machine: power cuts that tear writes into sectors, and bits that
// change while no process uses the disk. All choices come from the caller's random numbers.
//
//	MemFS (synced and unsynced data) ── Whole, Tear ──▶ MemFS after the end of a process or of the power
//	                                 ── FlipBits ────▶ the same MemFS with wrong bits in its tables
//
// It does not damage files that a process has open: the caller ends the process first. Faults are what a disk in use
// does: it fails, is full or is slow, and its data stay.
package damage

import (
	"cqld/internal/env"
	"cqld/storage/logarchive"
)

// Rand returns random numbers.
type Rand interface {
	// Intn returns a number in [0, n).
	Intn(n int) int
	// Chance returns true with a probability of p in a thousand.
	Chance(p int) bool
}

// Disks is what the disks of all machines of a simulation do.
type Disks struct {
	// TornWrites makes a power cut keep any subset of the unsynced 512-byte sectors.
	TornWrites bool
	// Encrypted makes machines encrypt their files, with another key in each process (simulation/sealed).
	Encrypted bool
	// Archived makes storage keep its logs until they are archived.
	Archived bool
}

// LogArchive returns how storage keeps its log, stamped by a clock; nil unless it is archived.
func (d *Disks) LogArchive(clock *env.HLC) *logarchive.Options {
	if !d.Archived {
		return nil
	}
	return &logarchive.Options{Stamp: clock.Next, Observe: clock.Observe}
}
