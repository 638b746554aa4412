package simulation

import (
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// tokenOf identifies the partitions of a table with one token.
type tokenOf struct {
	table schema.StorageID
	token ring.Token
}

// excuses contains the partitions that hints alone need not make equal on all replicas: those for which a hint was lost
// or a logged batch was dropped, and those that a process wrote to shortly before it ended, because its hints may be
// lost with it. The zero value excuses nothing. It grows during the run and is used at its end, only for a comparison
// after hints alone: reads and repairs have no excuse.
type excuses struct {
	// A place is a token of a table, not a key, because the callback for lost hints reports tokens.
	places map[tokenOf]bool
	// tables contains truncated tables: replicas may have late writes, whose hints are void.
	tables map[schema.StorageID]bool
	// all means that a node has left the ring with its hints. Nothing is then compared after hints alone.
	all bool
}

// truncated excuses a table.
func (e *excuses) truncated(table schema.StorageID) {
	if e.tables == nil {
		e.tables = map[schema.StorageID]bool{}
	}
	e.tables[table] = true
}

// has reports whether a place is excused.
func (e *excuses) has(p tokenOf) bool { return e != nil && (e.places[p] || e.tables[p.table]) }

// left excuses all places if the process of a node that has left the ring has hints: every range is repaired after a
// change of the ring, so nothing depends on them. nil means that the node has no process.
func (e *excuses) left(l *process) {
	if l == nil || l.coord == nil {
		return
	}
	for id := range l.node.cluster.machines {
		e.all = e.all || l.parts.Hints.Pending(ring.NodeID(id+1)) > 0
	}
}

// hintWithin bounds the time from when a replica applies a mutation until its coordinator has the hints for the others
// on disk: the timeout of a request, and the time for which hints are buffered.
const hintWithin = 4 * time.Second

// add excuses a place.
func (e *excuses) add(p tokenOf) {
	if e.places == nil {
		e.places = map[tokenOf]bool{}
	}
	e.places[p] = true
}

// processEnded excuses the recent writes of a process. now is the time of the crash. Mutations that were touched
// earlier than hintWithin are not excused.
func (e *excuses) processEnded(l *process, now time.Duration) {
	for p, at := range l.touched {
		// Older mutations have their hints on disk, or an answer of every replica.
		if now-at <= hintWithin {
			e.add(p)
		}
	}
}

// touch records that a replica applies mutations, for the process that sent them and for this one.
func (l *process) touch(mutations []*row.Mutation) {
	c := l.node.cluster
	for _, m := range mutations {
		p := tokenOf{m.Table, m.Key.Token}
		l.touched[p] = c.kernel.Now()
		// The coordinator that sent the mutation owes hints to the other replicas, so its end matters, not only this
		// process's.
		switch from := l.serving; {
		case from == nil:
		case !from.Ended():
			from.touched[p] = c.kernel.Now()
		// Its sender has ended while the message was under way, and its hints with it.
		default:
			c.verify.excused.add(p)
		}
	}
}

// hintLost is assembly.Options.HintLost. Lost hints and dropped batches also mark a partition for automatic repair.
func (l *process) hintLost(table schema.StorageID, token ring.Token) {
	l.node.cluster.verify.excused.add(tokenOf{table, token})
}
