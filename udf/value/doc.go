// Package value implements the values that user-defined functions compute with, and the bounds of one call.
//
// It converts between CQL values in wire form and values of scripts, without loss, and counts the steps and the
// memory of a call. The packages of the languages execute functions.
//
//	wire bytes ── FromCQL ──▶ Value ── script ──▶ Value ── ToCQL ──▶ wire bytes
//	                              └── Meter: steps, bytes, time ──┘
//
// Values that scripts cannot have are nil: null, and empty values of types other than text, blob and collections.
// Converting a value to a script and back keeps it otherwise; only the scale of a decimal and the order of a table's
// keys are visible to it.
//
// The counts of a call are deterministic: the same function with the same arguments uses the same steps and bytes on
// every node, so a call exceeds its bounds on all nodes or on none. Only the time depends on the machine.
package value
