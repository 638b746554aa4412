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
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/failure"
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
type Streams struct {
	o  StreamOptions
	mu struct {
		sync.Mutex
		closed bool
		// sessions has all that have not ended, by ID; the ones in waiting are among them, and active counts the
		// others.
		sessions map[string]*session
		waiting  []*session
		active   int
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
	s.mu.sessions, s.mu.out = map[string]*session{}, map[Sending]*sending{}
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

// session is the state of a Session. Streams.mu guards it, except file and positions, which belong to the one event
// under way.
type session struct {
	Session
	streams  *Streams
	progress func(bytes int64)
	done     func(error)

	state SessionState
	ended bool
	timer env.Timer
	bytes int64 // of entries received, durable or not
	total int64 // estimate of the source
	// since is when the source answered last, or when the session began (monotonic). Retries end RetryFor after it.
	since time.Duration
	fails int
	err   error // of the last attempt
	begun bool  // the source has replied since Start
	// after is the position of the next block, and kept the position to which a failure returns.
	after  []byte
	kept   []byte // the durable value of after
	stored int64  // the durable value of bytes
	file   *storage.Ingestion
	count  uint64 // of the table's truncations when the last block was requested
}

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
	q := &session{Session: p, streams: s, progress: progress, done: done, state: SessionWaiting}
	s.mu.Lock()
	// Two sessions of one ID would store their positions in one record.
	if s.mu.closed || s.mu.sessions[p.ID] != nil {
		s.mu.Unlock()
		done(s.failure(p, errors.New("the session is already under way, or the node is stopping")))
		return
	}
	// Registered before it runs, so that Cancel finds a session that still waits.
	s.mu.sessions[p.ID] = q
	s.mu.waiting = append(s.mu.waiting, q)
	s.mu.Unlock()
	s.next()
}

// next starts waiting sessions up to SessionsMax.
func (s *Streams) next() {
	for {
		s.mu.Lock()
		if s.mu.active >= s.o.Limits.SessionsMax || len(s.mu.waiting) == 0 {
			s.mu.Unlock()
			return
		}
		q := s.mu.waiting[0]
		s.mu.waiting = slices.Delete(s.mu.waiting, 0, 1)
		s.mu.active++
		q.since = s.o.Clock.Monotonic()
		s.mu.Unlock()
		// Without mu, because load reads the disk.
		s.o.Run(q.load)
	}
}

// Cancel ends a session. Its durable data stay, and Start continues there.
func (s *Streams) Cancel(session string) {
	s.mu.Lock()
	q := s.mu.sessions[session]
	s.mu.Unlock()
	// Without mu: end acquires it.
	if q != nil {
		q.end(ErrCancelled)
	}
}

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
func (s *Streams) Close() {
	s.mu.Lock()
	s.mu.closed = true
	var all []*session
	for _, q := range s.mu.sessions {
		all = append(all, q)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *session) int { return strings.Compare(a.ID, b.ID) })
	for _, q := range all {
		q.end(ErrCancelled)
	}
}

// Receiving reports whether rows of a table are being streamed to this node.
func (s *Streams) Receiving(table schema.StorageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.sessions {
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
	for _, q := range s.mu.sessions {
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

// load reads the position that an earlier process stored.
func (q *session) load() {
	record, err := q.streams.o.Engine.GetLocal(streamKey(q.ID))
	if err != nil {
		q.end(err)
		return
	}
	// A record of another epoch, source or range has another identity: the session starts from the beginning.
	if rest, same := strings.CutPrefix(string(record), string(q.appendIdentity(nil))); same {
		c := wire.NewCursor([]byte(rest))
		ended := c.Uint8() == 1
		bytes := int64(c.Uvarint())
		// A record that cannot be decoded is ignored, and the range is streamed from its beginning.
		if after := c.Rest(); c.Err() == nil {
			q.streams.mu.Lock()
			q.bytes, q.stored = bytes, bytes
			q.streams.mu.Unlock()
			q.after, q.kept = after, after
			if ended {
				q.end(nil)
				return
			}
		}
	}
	q.fetch()
}

// store records, after an sstable was ingested, that the range up to q.after is stored. It needs no sync: after a
// crash, lost positions only repeat work.
func (q *session) store(ended bool) error {
	var flag byte
	if ended {
		flag = 1
	}
	q.kept, q.stored = q.after, q.bytes // only events of the session change bytes
	record := wire.AppendUvarint(append(q.appendIdentity(nil), flag), uint64(q.bytes))
	return q.streams.o.Engine.SetLocal(streamKey(q.ID), append(record, q.after...), false)
}

// enter sets the state. It reports false when the session has ended.
func (q *session) enter(state SessionState) bool {
	q.streams.mu.Lock()
	defer q.streams.mu.Unlock()
	if !q.ended {
		q.state = state
	}
	return !q.ended
}

// fetch requests the next block.
func (q *session) fetch() {
	if !q.enter(SessionFetching) {
		q.abort()
		return
	}
	o := &q.streams.o
	// What was received before the truncation must not be stored after it.
	if q.begun && o.Local.Truncations().Count(q.Table) != q.count {
		q.restart()
	}
	named, count := o.Local.Truncations().Required(q.Table)
	// Read together with the list: a truncation that begins later changes the count.
	q.count = count
	request := appendStreamRequest(nil, &streamRequest{
		first: !q.begun, epoch: q.Epoch, table: q.Table, tokens: q.Range, bytesMax: o.Limits.BlockBytes,
		truncations: named,
		keyspaces:   q.Keyspaces, after: q.after,
	})
	o.Transport.Request(q.Source, messaging.VerbStream, request, o.Limits.Timeout, func(payload []byte, err error) {
		if err != nil {
			// the end of a session writes to disk, and this may be the goroutine of a peer's stream
			o.Run(func() { q.failed(err) })
			return
		}
		payload = slices.Clone(payload)
		o.Run(func() { q.receive(payload) })
	})
}

// receive is the event of the source's reply.
func (q *session) receive(payload []byte) {
	if !q.enter(SessionWriting) {
		q.abort()
		return
	}
	reply, err := decodeStreamReply(payload)
	if err != nil {
		q.failed(err)
		return
	}
	// The block may have been read before the truncation. It is discarded, and all before it that was not ingested.
	if o := &q.streams.o; o.Local.Truncations().Count(q.Table) != q.count {
		q.restart()
		q.fetch()
		return
	}
	err = q.write(&reply)
	// The truncation began between the check above and the commit of the file.
	if errors.Is(err, errStreamTruncated) {
		q.restart()
		q.fetch()
		return
	}
	if unknown := (*failure.UnknownTable)(nil); errors.As(err, &unknown) {
		q.abort()
		q.end(nil) // the table was dropped
		return
	}
	if err != nil {
		q.failed(err)
		return
	}
	q.streams.mu.Lock()
	// Progress: the next failure is retried for the whole time again.
	q.begun, q.fails, q.err, q.since = true, 0, nil, q.streams.o.Clock.Monotonic()
	q.total = max(q.total, reply.total)
	bytes := q.bytes
	q.streams.mu.Unlock()
	q.progress(bytes)
	if reply.next == nil {
		q.end(nil)
		return
	}
	q.fetch()
}

// write adds a block to the file, and ingests the file when it is large enough or the block is the last.
func (q *session) write(reply *streamReply) error {
	o := &q.streams.o
	if q.file == nil {
		q.file = o.Engine.NewIngestion(q.Table, q.Range)
	}
	before, block := q.file.Size(), reply.block
	// This node votes already. A decision from another replica would claim that its rows have the change.
	if q.Restore && q.Table == schema.PaxosTable {
		var err error
		if block, err = o.Local.UndecidedStates(block); err != nil {
			return err
		}
	}
	if err := q.file.Add(block); err != nil {
		return err
	}
	q.streams.mu.Lock()
	q.bytes += q.file.Size() - before
	q.streams.mu.Unlock()
	// In memory only; store makes it durable with the file.
	q.after = reply.next
	if reply.next != nil && q.file.Size() < o.Limits.FileBytes {
		return nil
	}
	file := q.file
	q.file = nil
	// A truncation of the table waits until Commit returns, and removes the rows of the file, too.
	valid, err := o.Local.Truncations().Commit(q.Table, q.count, file.Commit)
	if !valid {
		file.Abort()
		return errStreamTruncated
	}
	// Also after an error, because the file may have been ingested.
	o.Changed(q.Table)
	if err != nil {
		return err
	}
	return q.store(reply.next == nil)
}

// restart returns to the beginning of the range, because the table was truncated on this node.
func (q *session) restart() {
	q.kept, q.stored = nil, 0
	q.abort()
	q.begun = false
}

// abort discards the incomplete file and returns to the durable position.
func (q *session) abort() {
	if q.file != nil {
		q.file.Abort()
		q.file = nil
	}
	q.returnBytes()
	q.after = q.kept
}

// returnBytes sets the bytes received to the durable ones.
func (q *session) returnBytes() {
	q.streams.mu.Lock()
	defer q.streams.mu.Unlock()
	invariant.Check(q.bytes >= q.stored, "rebalance: more bytes are durable than were received")
	q.bytes = q.stored
}

// failed retries after a pause, or ends the session when a retry cannot succeed. A source that left the ring does not
// return: the session ends at once, and its range is streamed from another node.
func (q *session) failed(err error) {
	s := q.streams
	// The movement chooses another source for the range.
	left := s.o.View.Topology().Node(q.Source) == nil
	lost := errors.Is(err, messaging.ErrTimeout) || errors.Is(err, messaging.ErrUnreachable) ||
		errors.Is(err, messaging.ErrOverloaded) || errors.Is(err, errStreamNotYet) || errors.Is(err, errStreamChecksum)
	var remote *messaging.RemoteError
	lost = lost || errors.As(err, &remote) && remote.Code == messaging.CodeOverloaded
	lost = lost && !left
	// An operator may free space; other failures of this node do not pass.
	full := errors.Is(err, failure.ErrDiskFull)
	// After a lost block, the file is kept and the same block is requested again.
	if !lost {
		q.abort()
	}
	s.mu.Lock()
	q.err = err
	// A session that has made progress lately may fail for the whole of RetryFor again.
	waited := s.o.Clock.Monotonic() - q.since
	if !lost && !full || waited > s.o.Limits.RetryFor {
		s.mu.Unlock()
		q.abort()
		q.end(err)
		return
	}
	// It was cancelled while this event ran: end has left the file to this event.
	if q.ended {
		s.mu.Unlock()
		q.abort()
		return
	}
	q.state = SessionRetrying
	// The shift is bounded, so that it cannot overflow.
	pause := min(s.o.Limits.RetryMin<<min(q.fails, 16), s.o.Limits.RetryMax)
	q.fails++
	// Set with mu, because leave stops the timer.
	q.timer = s.o.Clock.After(pause, func() { s.o.Run(q.fetch) })
	s.mu.Unlock()
}

// end ends the session, once. The event under way discards the file of a cancelled session; otherwise the next start of
// the node does.
func (q *session) end(err error) {
	s := q.streams
	idle, first := s.leave(q)
	if !first {
		return
	}
	// Otherwise the event under way finds that the session has ended, and discards the file.
	if idle {
		q.abort()
	}
	if err != nil {
		err = s.failure(q.Session, err)
	}
	q.done(err)
	s.next()
}

// leave removes a session, once. idle means that no event of it is under way.
func (s *Streams) leave(q *session) (idle, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.ended {
		return false, false
	}
	invariant.Check(s.mu.sessions[q.ID] == q, "rebalance: a session has the id of another")
	// A waiting session has not been counted as active.
	if waiting := slices.Index(s.mu.waiting, q); waiting >= 0 {
		s.mu.waiting = slices.Delete(s.mu.waiting, waiting, waiting+1)
	} else {
		invariant.Check(s.mu.active > 0, "rebalance: more sessions have ended than begun")
		s.mu.active--
	}
	idle = q.state == SessionRetrying && q.timer.Stop()
	// Events that are under way see this in enter.
	q.ended, q.state = true, SessionEnded
	delete(s.mu.sessions, q.ID)
	return idle, true
}
