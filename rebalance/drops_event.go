package rebalance

import (
	"time"

	"cqld/ring"
	"cqld/schema"
)

// dropEventKind is the kind of an event of Drops.
type dropEventKind uint8

const (
	// dropRequested is a call of Cleanup, or of Reconcile while this node has data of ranges that it lost.
	dropRequested dropEventKind = iota
	// dropCancelled is a call of the function that cancels a cleanup.
	dropCancelled
	// dropConfirmed means that the metadata of the event are confirmed.
	dropConfirmed
	// dropSearched is the end of the search for data.
	dropSearched
	// dropAnswered is the answer of a replica, or the end of the wait for it.
	dropAnswered
	// dropFenced means that requests for the ranges are refused, and that the ranges are listed again.
	dropFenced
	// dropRemoved is the end of the removal of one unit.
	dropRemoved
	// dropUnfenced means that requests are admitted again.
	dropUnfenced
	// dropReported is the answer of the metadata log.
	dropReported
	// dropResumed is the end of the pause after a failure.
	dropResumed
	// dropGained means that this node has gained ranges that it has not reported as repaired.
	dropGained
	// dropChecked is the end of a check of these ranges.
	dropChecked
	// dropStopped is a call of Close.
	dropStopped
)

// dropEvent is an input of a dropMachine.
type dropEvent struct {
	kind    dropEventKind
	number  uint64   // of the effect: confirmed, searched, answered, fenced, removed, unfenced, reported, resumed
	cleanup *cleanup // requested, cancelled; nil if no operator requested the decision
	err     error    // searched, answered, removed, reported

	node    ring.NodeID // answered
	answers []byte      // answered: a byte for each holding of the node; valid during the step
	items   []dropItem  // confirmed; searched: those with data; fenced: those that this node still does not hold
	// former are the keyspaces with data of former replications (confirmed).
	former         map[string]*FormerData
	epoch, unclean uint64       // confirmed
	operations     int          // confirmed: that change the ring
	member         bool         // confirmed: this node is a member
	repaired       []GainedData // checked
}

// dropEffectKind is the kind of an effect of Drops.
type dropEffectKind uint8

const (
	// effectConfirm confirms the metadata. Its event is dropConfirmed.
	effectConfirm dropEffectKind = iota
	// effectSearch searches for data of the items. Its event is dropSearched.
	effectSearch
	// effectAsk asks a replica which ranges it holds. Its event is dropAnswered.
	effectAsk
	// effectFence refuses requests for the items, and lists them again. Its event is dropFenced.
	effectFence
	// effectDrop removes the data of a unit. Its event is dropRemoved.
	effectDrop
	// effectUnfence ends the refusal. Its event is dropUnfenced.
	effectUnfence
	// effectCount reports to operators how many units were removed.
	effectCount
	// effectSettle reports a keyspace without data of former replications. A lost report is repeated after the next
	// decision.
	effectSettle
	// effectClean reports that this node has no data of lost ranges. Its event is dropReported.
	effectClean
	// effectAnswer ends requests of operators.
	effectAnswer
	// effectWarn logs a failure.
	effectWarn
	// effectRetry makes dropResumed after a pause.
	effectRetry
	// effectReconcile looks whether this node has become unclean again.
	effectReconcile
	// effectCheck makes dropChecked after a pause.
	effectCheck
	// effectRegain reports a keyspace whose gained ranges are repaired. A lost report is repeated after a repair.
	effectRegain
)

// waits reports whether the effect waits for the disk, or follows one that does. A step has at most one such effect,
// which is its last.
func (k dropEffectKind) waits() bool {
	return k == effectSearch || k == effectFence || k == effectDrop || k == effectUnfence
}

// dropEffect is an output of a dropMachine.
type dropEffect struct {
	kind     dropEffectKind
	number   uint64      // confirm, search, ask, fence, drop, unfence, clean, retry
	items    []dropItem  // search, fence
	node     ring.NodeID // ask
	request  []byte      // ask
	unit     dropUnit    // drop
	cleanups []*cleanup  // count, answer
	done     int         // count
	all      int         // count
	keyspace string      // settle, regain
	epoch    uint64      // settle, clean, regain
	err      error       // answer, warn
	after    time.Duration
}

// dropUnit is a range of one table, or the Paxos states of a range.
type dropUnit struct {
	table  schema.StorageID
	tokens ring.Range
	// states reports that only the states of one keyspace are removed; table is system.paxos.
	states   bool
	keyspace string // of the states
}
