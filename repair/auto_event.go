package repair

import (
	"time"

	"cqld/ring"
	"cqld/schema"
)

// autoEventKind is the kind of an event of Auto's two machines.
type autoEventKind uint8

const (
	// autoStarted is a call of Start.
	autoStarted autoEventKind = iota
	// autoStopped is a call of Close.
	autoStopped
	// autoResumed is the end of a pause.
	autoResumed
	// autoUnblocked is a node coming up.
	autoUnblocked
	// autoMoved is a change of the ring.
	autoMoved
	// autoLost is the loss of a hint. Only the machine of dirty ranges gets it.
	autoLost
	// autoRepaired is the end of a repair.
	autoRepaired
)

// autoEvent is an input of a machine of Auto.
type autoEvent struct {
	kind   autoEventKind
	number uint64        // of the effect: resumed, repaired
	now    time.Duration // monotonic
	wall   int64         // ns since 1970
	// delay is the pause before scheduled repairs, with its random part.
	delay  time.Duration    // started, moved
	table  schema.StorageID // lost
	chunk  int              // lost
	report Report           // repaired
	err    error            // repaired
}

// autoEffectKind is the kind of an effect of Auto's machines.
type autoEffectKind uint8

const (
	// autoStore sets a local key, or deletes it.
	autoStore autoEffectKind = iota
	// autoRepair starts a repair. Its event is autoRepaired.
	autoRepair
	// autoPause replaces the timer of the machine. Its event is autoResumed.
	autoPause
	// autoNote reports to the operator.
	autoNote
	// autoCancel cancels the repair under way, and stops the timer.
	autoCancel
)

// autoEffect is an output of a machine of Auto.
type autoEffect struct {
	kind   autoEffectKind
	number uint64        // repair, pause
	job    Job           // repair
	after  time.Duration // pause
	key    []byte        // store
	value  []byte        // store; nil deletes the key
	note   string        // note
	err    error         // note
}

// autoTask is the repair under way of a machine of Auto. A number of 0 means none.
type autoTask struct {
	number uint64
	table  schema.StorageID
	tokens ring.Range
}
