// Package turn says whose turn it is with a partition that several coordinators change.
//
// It orders, and promises nothing: who gets no turn in time goes on without, two homes that disagree about who is
// alive let two go at once, and Paxos, of which it knows nothing, decides as it always does.
//
//	A ── turn? ──▶ Home ◀── turn? ── B
//	A ◀── go ───── Home              (B waits, and gathers what comes for the partition meanwhile)
//	A   its round
//	A ── pass ───▶ Home ─── go ────▶ B
//
// Coordinators know from Contested at which partitions they have met others lately. A partition goes by its Line.
package contention
