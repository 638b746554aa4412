package coordinator

import (
	"sync"

	"cqld/row"
	"cqld/schema"
)

// casLines let conditional changes of one partition that this node coordinates go one after the
// other: among themselves they need no contention.
type casLines struct {
	mu    sync.Mutex
	lines map[string][]*casOp // who waits behind the one under way
	count int64
}

// lineKey is the name of a partition's line.
func lineKey(table schema.StorageID, key row.PartitionKey) string {
	b := make([]byte, 4, 4+len(key.Bytes))
	b[0], b[1], b[2], b[3] = byte(table>>24), byte(table>>16), byte(table>>8), byte(table)
	return string(append(b, key.Bytes...))
}

// enter says whether op may begin at once; otherwise leave will let it. ok is false when too many
// are under way or wait.
func (l *casLines) enter(op *casOp, most int64) (first, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= most {
		return false, false
	}
	l.count++
	waiting, busy := l.lines[op.line]
	if !busy {
		if l.lines == nil {
			l.lines = map[string][]*casOp{}
		}
		l.lines[op.line] = nil
		return true, true
	}
	l.lines[op.line] = append(waiting, op)
	return false, true
}

// leave is who comes next after the one under way; nil when nobody waits.
func (l *casLines) leave(line string) *casOp {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	waiting := l.lines[line]
	if len(waiting) == 0 {
		delete(l.lines, line)
		return nil
	}
	l.lines[line] = waiting[1:]
	return waiting[0]
}
