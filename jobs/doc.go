// Package jobs is the registry of a node's long-running work: repairs, rebuilds, cleanups, compactions and ring
// operations. Operators list, watch, cancel and resume jobs through it.
//
//	          Start             slot free           End(nil)
//	caller ──────────▶ queued ───────────▶ running ─────────▶ done
//	                     │                    │ End(err) ─────▶ failed
//	                     └──── Cancel ────────┴──────────────▶ cancelled
//	                     └──── crash, Close ──┴──────────────▶ interrupted
//	failed, cancelled, interrupted ── Resume ──▶ queued, as the next attempt
//
// Within an attempt, the state only moves to the right. Resume begins the next attempt with the checkpoint of the last
// one.
//
// The registry records work; it does not perform it. It owns no goroutine and reads no system clock: the caller of
// Start provides a function that begins the work, and the clock is injected. Records of local jobs are kept in a
// LocalStore, so that a new process lists the jobs that the previous one did not end. The metadata log keeps ring
// operations; External jobs show them under the same id on every node, and are not stored here.
//
// Callbacks of the caller (work, OnCancel, Forgotten, OnError) are called without the registry's lock, so they may call
// the registry. A record may be older than the job by Limits.StoreEvery after a crash, which only shows less progress:
// checkpoints are stored at once.
package jobs
