package rebalance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Session identifies a range of a table that is streamed to this node from another one.
type Session struct {
	// ID names the session. A session of the same ID, epoch, source and range continues after a crash at its stored
	// position.
	ID string
	// Epoch is the topology that the source must have applied before it reads: from then on, coordinators send all
	// writes of the range to this node, too.
	Epoch  uint64
	Table  schema.StorageID
	Range  ring.Range // may wrap
	Source ring.NodeID
	// Keyspaces are those whose states are streamed, if Table is system.paxos: the keyspaces of which this node gains
	// the range. It must not receive the state of another keyspace's table. Such a state may list a change as decided
	// that this node's rows lack, which would count as a replica that has the change.
	Keyspaces []string
	// Restore reports that this node is a replica of the range already, and restores its data.
	Restore bool
}

// StreamEngine is the part of storage that Streams needs.
//
// Export returns the entries of a range after a key, up to bytesMax, and the key at which to continue; nil means the
// end.
type StreamEngine interface {
	Export(dst []byte, table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool, after []byte,
		bytesMax int,
	) (block, next []byte, err error)
	NewIngestion(table schema.StorageID, tokens ring.Range) *storage.Ingestion
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	Drain() error
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
}

// StreamOptions are the dependencies of Streams. All are required except Limits.
type StreamOptions struct {
	View      coordinator.View
	Local     *replica.Local
	Engine    StreamEngine
	Transport messaging.Transport
	Clock     env.Clock
	// Run runs work that waits for the disk: in a goroutine of its own, or at once in simulation. It is called from any
	// goroutine, without locks.
	Run    func(func())
	Limits Limits
	// Changed is called after rows of a table were stored other than by mutations.
	Changed func(table schema.StorageID)
}

// Streams transfers ranges of tables from other nodes to this one, and answers the requests of other nodes. It is safe
// for concurrent use.
//
//	session ── VerbStream(after) ──▶ source: scan from after, up to one block
//	        ◀─ block, next ─────────
//	        add to an sstable; every FileBytes: ingest it, store next under the session's ID
//
// The source keeps no state between two blocks. A lost block is requested again; a crash of the source changes nothing,
// and after a crash of this node the session continues where its last sstable ended. Blocks may be stored twice:
// entries are merge operands.
//
// Streams is the shell of a streamMachine: it serializes the events of the sessions, checks the invariants and performs
// the effects. The source's half has no sessions.
type Streams struct {
	o  StreamOptions
	mu struct {
		sync.Mutex
		machine streamMachine
		// free is the time (monotonic) at which the outbound budget allows the next block; held counts the blocks that
		// wait for it.
		free time.Duration
		held int
		sent int64
		// out has statistics about the blocks that other nodes request.
		out map[Sending]*sending
	}
}

// NewStreams registers the handler of VerbStream. Call it before the transport starts.
func NewStreams(o StreamOptions) *Streams {
	o.Limits = o.Limits.withDefaults()
	s := &Streams{o: o}
	s.mu.machine = streamMachine{view: o.View, limits: &s.o.Limits, sessions: map[string]*session{}}
	s.mu.out = map[Sending]*sending{}
	o.Local.Truncations().Load(o.Engine, o.Clock, o.Limits.TruncationWait)
	// reads in o.Run
	o.Transport.Handle(messaging.Service{Verb: messaging.VerbStream, Name: "stream", Handler: s.serve})
	return s
}

// ErrCancelled is the outcome of a session that Cancel or Close ended.
var ErrCancelled = errors.New("rebalance: the stream was cancelled")

// SessionError is the failure of a session. Another Start of the same session continues at its position.
type SessionError struct {
	Session Session
	Err     error
	table   string
	source  string
}

// failure returns a SessionError with the present names of the table and the source.
func (s *Streams) failure(p Session, err error) *SessionError { return failureOf(s.o.View, p, err) }

// failureOf returns a SessionError with the names of the table and the source in a view.
func failureOf(v coordinator.View, p Session, err error) *SessionError {
	return &SessionError{Session: p, Err: err, table: v.Schema().NameOf(p.Table), source: v.Topology().NameOf(p.Source)}
}

func (e *SessionError) Error() string {
	return fmt.Sprintf("rebalance: stream of table %s, range %v from %s: %v", e.table, e.Session.Range, e.source, e.Err)
}

// Unwrap returns the cause.
func (e *SessionError) Unwrap() error { return e.Err }

// SessionState is the present activity of a session.
type SessionState string

// The states of a session.
const (
	SessionWaiting  SessionState = "waiting"  // for SessionsMax
	SessionFetching SessionState = "fetching" // a block was requested
	SessionWriting  SessionState = "writing"
	SessionRetrying SessionState = "retrying" // after a failure
	SessionEnded    SessionState = "ended"
)

// Start starts a session, or continues one of an earlier process. It calls progress, which may be nil, with the total
// bytes received so far, and done once: with nil when the whole range is on disk, or when the table was dropped. A
// session that completed before is done at once, until Forget. A stored session of the same ID with another epoch,
// source or range is ignored.
func (s *Streams) Start(p Session, progress func(bytes int64), done func(error)) {
	if progress == nil {
		progress = func(int64) {}
	}
	s.deliver(&streamEvent{kind: streamStarted, session: &session{Session: p, progress: progress, done: done}})
}

// Cancel ends a session. Its durable data stay, and Start continues there.
func (s *Streams) Cancel(session string) { s.deliver(&streamEvent{kind: streamCancelled, id: session}) }

// Forget removes the record of a session: Start repeats it from the beginning.
func (s *Streams) Forget(session string) error {
	s.Cancel(session)
	return s.o.Engine.DeleteLocal(streamKey(session), false)
}

// forgetAll is Forget of all sessions whose IDs begin with prefix. None of them may be under way.
func (s *Streams) forgetAll(prefix string) error {
	var keys [][]byte
	err := s.o.Engine.ScanLocal(streamKey(prefix), func(key, _ []byte) error {
		keys = append(keys, slices.Clone(key))
		return nil
	})
	for _, key := range keys {
		err = errors.Join(err, s.o.Engine.DeleteLocal(key, false))
	}
	return err
}

// Close ends all sessions.
func (s *Streams) Close() { s.deliver(&streamEvent{kind: streamStopped}) }

// Receiving reports whether rows of a table are being streamed to this node.
func (s *Streams) Receiving(table schema.StorageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.machine.sessions {
		if q.Table == table {
			return true
		}
	}
	return false
}

// SessionStatus is the progress of a session.
type SessionStatus struct {
	Session
	State SessionState
	// Bytes were received. Total is the source's estimate, at the start, of the compressed bytes on its disk.
	Bytes, Total int64
	// Err is shown while the session retries, so that an operator sees why it does not progress.
	Err error // of the last attempt, if it failed
}

// Sessions returns the sessions that have not ended, by ID.
func (s *Streams) Sessions() (sessions []SessionStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.machine.sessions {
		sessions = append(sessions, SessionStatus{q.Session, q.state, q.bytes, q.total, q.err})
	}
	slices.SortFunc(sessions, func(a, b SessionStatus) int { return strings.Compare(a.ID, b.ID) })
	return sessions
}

// The local key of a session, and its value:
//
//	stream/ session → epoch 8, source 8, table 4, start 8, end 8, ended 1, bytes uvarint, after
func streamKey(session string) []byte { return append([]byte("stream/"), session...) }

// appendIdentity appends the values that a stored position belongs to.
func (q *session) appendIdentity(dst []byte) []byte {
	dst = wire.AppendUint64(wire.AppendUint64(dst, q.Epoch), uint64(q.Source))
	dst = wire.AppendUint32(dst, uint32(q.Table))
	return wire.AppendInt64(wire.AppendInt64(dst, int64(q.Range.Start)), int64(q.Range.End))
}

// deliver takes an event, and performs its effects in the caller's goroutine. Effects may deliver further events, which
// nest.
func (s *Streams) deliver(ev *streamEvent) {
	out := s.step(ev)
	for i := range out {
		s.perform(&out[i])
	}
}

// step is the critical section of an event.
func (s *Streams) step(ev *streamEvent) []streamEffect {
	ev.now = s.o.Clock.Monotonic()
	// The shell reads the truncations, because they have their own lock.
	if q := ev.session; q != nil {
		ev.required, ev.count = s.o.Local.Truncations().Required(q.Table)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.mu.machine.step(ev, nil)
	s.mu.machine.check()
	return out
}

// perform performs an effect without the lock.
func (s *Streams) perform(e *streamEffect) {
	q, number := e.session, e.number
	//exhaustive:enforce
	switch e.kind {
	case streamLoad:
		s.o.Run(func() {
			position, err := s.load(q)
			s.deliver(&streamEvent{kind: streamLoaded, session: q, number: number, position: position, err: err})
		})
	case streamRequestBlock:
		s.request(e)
	case streamWrite:
		ev := &streamEvent{kind: streamWritten, session: q, number: number, reply: e.reply}
		ev.added, ev.committed, ev.err = s.write(q, e)
		s.deliver(ev)
	case streamAbort:
		if file := s.takeFile(q); file != nil {
			file.Abort()
		}
	case streamPause:
		s.pause(e)
	case streamProgress:
		q.progress(e.bytes)
	case streamFinish:
		s.stopTimer(q)
		q.done(e.err)
	}
}

// load reads the position that an earlier process stored.
func (s *Streams) load(q *session) (p streamPosition, err error) {
	record, err := s.o.Engine.GetLocal(streamKey(q.ID))
	if err != nil {
		return p, err
	}
	// A record of another epoch, source or range has another identity: the session starts from the beginning.
	rest, same := strings.CutPrefix(string(record), string(q.appendIdentity(nil)))
	if !same {
		return p, nil
	}
	c := wire.NewCursor([]byte(rest))
	p.ended = c.Uint8() == 1
	p.bytes = int64(c.Uvarint())
	// A record that cannot be decoded is ignored, and the range is streamed from its beginning.
	if p.after = c.Rest(); c.Err() != nil {
		return streamPosition{}, nil
	}
	return p, nil
}

// request requests a block of the source.
func (s *Streams) request(e *streamEffect) {
	o, q, number := &s.o, e.session, e.number
	request := appendStreamRequest(nil, &streamRequest{
		first: e.first, epoch: q.Epoch, table: q.Table, tokens: q.Range, bytesMax: o.Limits.BlockBytes,
		truncations: e.required,
		keyspaces:   q.Keyspaces, after: e.position,
	})
	o.Transport.Request(q.Source, messaging.VerbStream, request, o.Limits.Timeout, func(payload []byte, err error) {
		ev := &streamEvent{kind: streamAnswered, session: q, number: number, err: err}
		payload = slices.Clone(payload)
		// The effects use the disk, and this may be the goroutine of a peer's stream.
		o.Run(func() {
			if ev.err == nil {
				var reply streamReply
				reply, ev.err = decodeStreamReply(payload)
				ev.reply = &reply
			}
			s.deliver(ev)
		})
	})
}

// write adds a block to the file, and ingests the file when it is large enough or the block is the last. It returns the
// bytes that the block added, and whether they and the position are stored.
func (s *Streams) write(q *session, e *streamEffect) (added int64, committed bool, err error) {
	o, reply := &s.o, e.reply
	file := s.takeFile(q)
	if file == nil {
		file = o.Engine.NewIngestion(q.Table, q.Range)
	}
	block := reply.block
	// This node votes already. A decision from another replica would claim that its rows have the change.
	if q.Restore && q.Table == schema.PaxosTable {
		block, err = o.Local.UndecidedStates(block)
	}
	before := file.Size()
	if err == nil {
		err = file.Add(block)
	}
	added = file.Size() - before
	if err != nil || reply.next != nil && file.Size() < o.Limits.FileBytes {
		s.putFile(q, file)
		return added, false, err
	}
	// A truncation of the table waits until Commit returns, and removes the rows of the file, too.
	valid, err := o.Local.Truncations().Commit(q.Table, e.count, file.Commit)
	if !valid {
		s.putFile(q, file)
		return 0, false, errStreamTruncated
	}
	// Changed is called even after an error, because the file may have been ingested.
	o.Changed(q.Table)
	if err == nil {
		err = s.store(q, streamPosition{ended: reply.next == nil, bytes: e.bytes + added, after: reply.next})
	}
	return added, err == nil, err
}

// store records, after an sstable was ingested, that the range up to a position is stored. It needs no sync: after a
// crash, lost positions only repeat work.
func (s *Streams) store(q *session, p streamPosition) error {
	var flag byte
	if p.ended {
		flag = 1
	}
	record := wire.AppendUvarint(append(q.appendIdentity(nil), flag), uint64(p.bytes))
	return s.o.Engine.SetLocal(streamKey(q.ID), append(record, p.after...), false)
}

// takeFile takes the incomplete file of a session, which then belongs to the caller. nil means that there is none.
func (s *Streams) takeFile(q *session) (file *storage.Ingestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, q.file = q.file, nil
	return file
}

// putFile returns a file that takeFile has taken. The event of the write discards it if the session has ended.
func (s *Streams) putFile(q *session, file *storage.Ingestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.file = file
}

// pause makes streamResumed after a time.
func (s *Streams) pause(e *streamEffect) {
	q, number := e.session, e.number
	s.mu.Lock()
	defer s.mu.Unlock()
	// Otherwise the session has ended since the step.
	if q.awaited == number {
		q.timer = s.o.Clock.After(e.after, func() {
			s.o.Run(func() { s.deliver(&streamEvent{kind: streamResumed, session: q, number: number}) })
		})
	}
}

// stopTimer stops the pause of a session that has ended. If it has fired already, the machine ignores its event.
func (s *Streams) stopTimer(q *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
	}
}
