// Package kernel makes a simulation deterministic: it executes events one at a time in the order of their simulated
// times, hashes all that happens into a trace, and generates random numbers from a seed.
//
//	components ── After(delay) ──▶ queue ── RunUntil ──▶ event ──▶ components
//	                                             └──▶ trace: equal for equal seeds
package kernel
