package hints

import (
	"time"

	"cqld/ring"
	"cqld/row"
)

// eventKind is the kind of an event.
type eventKind uint8

const (
	// eventScanned is the end of a scan of the records on disk.
	eventScanned eventKind = iota
	// eventHinted is a call of Add.
	eventHinted
	// eventFlushed is the end of Limits.Flush, or of a full buffer.
	eventFlushed
	// eventWritten is the end of the write of a record.
	eventWritten
	// eventCameUp means that a node is alive again.
	eventCameUp
	// eventDue is the end of the pause before a replay.
	eventDue
	// eventRead is the end of the read of a delivery's records.
	eventRead
	// eventAnswered is the answer of the node to a delivery.
	eventAnswered
	// eventSifted means that a delivery to other nodes contains only valid mutations.
	eventSifted
	// eventRerouted is the end of the write of a delivery to other nodes.
	eventRerouted
	// eventRemoved is the end of the removal of a delivery's records.
	eventRemoved
	// eventLeaving is a call of HandOver.
	eventLeaving
	// eventChecked is the end of a pause of a handover.
	eventChecked
	// eventAccepted is a call of SetAccepting.
	eventAccepted
	// eventStopped is a call of Close.
	eventStopped
)

// event is an input of a machine.
type event struct {
	kind eventKind
	now  time.Duration // monotonic
	node ring.NodeID   // hinted, flushed, cameUp, due
	err  error         // scanned, written, read, answered, rerouted, removed

	nodes map[ring.NodeID]*queue // scanned
	known bool                   // scanned: the truncations of all tables are known

	mutations []*row.Mutation // hinted
	hint      []byte          // hinted: the encoded mutations; nil if no hint of them is allowed
	stored    func(error)     // hinted: may be nil

	record   *record   // written
	number   uint64    // due: of the Arm or Wake
	delivery *delivery // read, answered, sifted, rerouted, removed
	count    int       // removed: records that were removed
	handOver *handOver // leaving, checked
	accept   bool      // accepted

	// permitted means that hints may be replayed, and that the delivery has a generation (read).
	permitted bool
	// The view of this node at the event.
	epoch  uint64 // answered
	alive  bool   // read: the node is alive
	former bool   // read: the node has left the ring
	moving bool   // read: ranges are moving
	leaves bool   // hinted, read, sifted: this node leaves the ring
	stays  bool   // leaving, checked: this node does not leave
}

// effectKind is the kind of an effect.
type effectKind uint8

const (
	// effectScan reads the records on disk, after a pause.
	effectScan effectKind = iota
	// effectArm sets the timer of a node. Its event is eventDue.
	effectArm
	// effectDisarm stops the timer of a node.
	effectDisarm
	// effectWake delivers eventDue without a pause.
	effectWake
	// effectArmFlush delivers eventFlushed after Limits.Flush, and effectFlush delivers it at once.
	effectArmFlush
	effectFlush
	// effectWrite writes a record and syncs it. Its event is eventWritten.
	effectWrite
	// effectLoad reads the records of a delivery. Its event is eventRead.
	effectLoad
	// effectSend sends a delivery to its node. Its event is eventAnswered.
	effectSend
	// effectSift removes void mutations from a delivery to other nodes. Its event is eventSifted.
	effectSift
	// effectReroute writes a delivery to the current replicas. Its event is eventRerouted.
	effectReroute
	// effectTransfer stores a delivery on two other nodes as a logged batch. Its event is eventRerouted.
	effectTransfer
	// effectRemove removes the records of a delivery. Its event is eventRemoved.
	effectRemove
	// effectSettle ends a generation of Coordinator.BeginSending.
	effectSettle
	// effectAnswer calls a callback.
	effectAnswer
	// effectLose reports mutations that are not delivered, and effectLoseRecord all mutations of a record.
	effectLose
	effectLoseRecord
	// effectReport reports the failure of a node's hints.
	effectReport
	// effectArmCheck delivers eventChecked after a pause.
	effectArmCheck
)

// effect is an output of a machine.
type effect struct {
	kind       effectKind
	node       ring.NodeID     // arm, disarm, wake, armFlush, flush, report
	number     uint64          // arm, wake
	after      time.Duration   // scan, arm
	record     *record         // write, loseRecord
	delivery   *delivery       // load, send, sift, reroute, transfer, remove
	generation uint64          // settle
	mutations  []*row.Mutation // lose
	stored     []func(error)   // answer
	err        error           // answer, report
	what       string          // report: what the failure means for the hints; empty for a failed scan
	handOver   *handOver       // armCheck
}

// record contains hints for one node that are on disk, or are being written.
type record struct {
	node     ring.NodeID
	sequence uint64
	value    []byte
	stored   []func(error) // called when it is written
}

// delivery contains the oldest records of one node. It is owned by the machine, or by the effect in progress.
type delivery struct {
	node      ring.NodeID
	keys      [][]byte
	sizes     []int64 // of the records, by key
	mutations []*row.Mutation
	marks     []int64         // of mutations
	created   []int64         // when the mutations were first written (ns since 1970)
	size      int64           // of the records on disk
	void      int             // number of mutations that are no longer sent
	expired   []*row.Mutation // void mutations that a replica may still lack
	damaged   int             // records whose end could not be read

	generation uint64        // of Coordinator.BeginSending, until the delivery ends
	rerouting  uint64        // of Coordinator.BeginSending, until the last answer of other nodes
	since      time.Duration // monotonic; when rerouting began
}

// handOver is the state of a handover, which waits until other nodes have the hints that this node stored when it
// began.
type handOver struct {
	left map[ring.NodeID]uint64 // queue.removed that the queue must reach
	done func(error)
}
