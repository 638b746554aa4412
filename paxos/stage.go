package paxos

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Stage is a stage of a round of conditional changes.
type Stage uint8

// The stages of a round. A round may go through some of them several times.
const (
	StageNone    Stage = iota // the round has not begun or has ended
	StageTurn                 // the round waits for a turn from the partition's arbiter
	StagePrepare              // the round waits for promises
	// StageRead is the time between the promises and the proposal: the coordinator sends a missing commit, reads at a
	// quorum, evaluates the conditions, or waits for the last promises.
	StageRead
	StagePropose // the round waits for acceptances
	StageCommit  // the round waits for the replicas to write the decided change
	StagePause   // the round waits before its next attempt
	// Stages is the number of stages.
	Stages
)

// String returns the name of the stage in metrics.
func (s Stage) String() string {
	return [...]string{"none", "turn", "prepare", "read", "propose", "commit", "pause"}[s]
}

// StageTimes holds the time that rounds spent in each stage. The time of StageNone is 0.
type StageTimes [Stages]time.Duration

// String returns the times that are not 0, or "0" if all are.
func (t StageTimes) String() string { return describe[Stage](t[:]) }

// describe returns the figures that are not 0 with their names, or "0" if all are.
func describe[N interface {
	~uint8
	String() string
}, F comparable](figures []F) string {
	var shown []string
	for i, f := range figures {
		if f != *new(F) {
			shown = append(shown, fmt.Sprint(N(i), "=", f))
		}
	}
	if len(shown) == 0 {
		return "0"
	}
	return strings.Join(shown, ",")
}

// stageTimes accumulates StageTimes in nanoseconds. Its methods may be called concurrently.
type stageTimes [Stages]atomic.Int64

// load returns the times.
func (t *stageTimes) load() (out StageTimes) {
	for i := range t {
		out[i] = time.Duration(t[i].Load())
	}
	return out
}
