package coordinator

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// CASStage is a stage of a round of conditional changes.
type CASStage uint8

// The stages of a round. A round may go through some of them several times.
const (
	CASStageNone    CASStage = iota // the round has not begun or has ended
	CASStageTurn                    // the round waits for its turn at the partition's arbiter
	CASStagePrepare                 // the round waits for promises
	// CASStageRead is the time between the promises and the proposal: the coordinator sends a missing commit, reads at a
	// quorum, evaluates the conditions, or waits for the last promises.
	CASStageRead
	CASStagePropose // the round waits for acceptances
	CASStageCommit  // the round waits for the replicas to write the decided change
	CASStagePause   // the round waits before its next attempt
	// CASStages is the number of stages.
	CASStages
)

// String returns the name of the stage in metrics.
func (s CASStage) String() string {
	return [...]string{"none", "turn", "prepare", "read", "propose", "commit", "pause"}[s]
}

// CASTimes holds the time that rounds spent in each stage. The time of CASStageNone is 0.
type CASTimes [CASStages]time.Duration

// String returns the times that are not 0, or "0" if all are.
func (t CASTimes) String() string {
	var shown []string
	for s, took := range t {
		if took != 0 {
			shown = append(shown, fmt.Sprint(CASStage(s), "=", took))
		}
	}
	if len(shown) == 0 {
		return "0"
	}
	return strings.Join(shown, ",")
}

// casTimes holds the same in nanoseconds. Its methods may be called concurrently.
type casTimes [CASStages]atomic.Int64

// load returns the times.
func (t *casTimes) load() (out CASTimes) {
	for i := range t {
		out[i] = time.Duration(t[i].Load())
	}
	return out
}

// stageLocked makes the round enter a stage, and adds the time since it entered the previous stage to the sum of that stage.
func (op *casRound) stageLocked(s CASStage) {
	now := op.c.clock.Monotonic()
	if op.stage != CASStageNone {
		op.c.counts.casTimes[op.stage].Add(int64(now - op.staged))
	}
	op.stage, op.staged = s, now
}
