// Package value implements the values that user-defined functions compute with, and the bounds of one call.
//
// It converts between CQL values in wire form and values of scripts, without loss, and counts the steps and the memory
// of a call. It does not execute anything: the packages of the languages do.
//
//	wire bytes ── FromCQL ──▶ Value ── script ──▶ Value ── ToCQL ──▶ wire bytes
//	                              └── Meter: steps, bytes, time ──┘
package value
