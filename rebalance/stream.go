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

// Session is a part of a table to be brought here from another node.
type Session struct {
	// Session names the pull: what was done under that name before a crash is not done again.
	ID string
	// Epoch is that of the topology which the source must know before it begins: from then on, this
	// node gets all writes of the range itself.
	Epoch  uint64
	Table  schema.StorageID
	Range  ring.Range // may wrap
	Source ring.NodeID
}

// StreamEngine is what Streams need of storage.
type StreamEngine interface {
	Export(dst []byte, table schema.StorageID, tokens ring.Range, after []byte, bytesMax int) (block, next []byte, err error)
	NewIngestion(table schema.StorageID, tokens ring.Range) *storage.Ingestion
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	Drain() error
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
}

// StreamOptions are what Streams are made of; Limits are optional.
type StreamOptions struct {
	View      coordinator.View
	Local     *replica.Local
	Engine    StreamEngine
	Transport messaging.Transport
	Clock     env.Clock
	// Run does work that takes the time of a disk: in a goroutine of its own, or at once in
	// simulation. It may be called from any goroutine, and must not call back before it returns
	// while a caller's lock is held; Streams hold none.
	Run    func(func())
	Limits Limits
	// Changed is called after rows of a table were stored other than by mutations.
	Changed func(table schema.StorageID)
}

// Streams brings ranges of tables from other nodes here, and answers those who pull from this one.
//
//	pull ── VerbStream(after) ──▶ source: scan from after on, up to one block
//	     ◀─ block, next ─────────
//	     add to an sstable; every FileBytes: ingest it, note next under the session's name
//
// The source keeps nothing between two blocks. A block that is lost is asked for again; after a crash of
// the source nothing changes, after one here the pull goes on where its last sstable ended. All of it
// may be done twice: entries are merge operands.
type Streams struct {
	o  StreamOptions
	mu struct {
		sync.Mutex
		closed  bool
		pulls   map[string]*pull
		waiting []*pull
		active  int
		// free is when (monotonic) the outbound budget is next not used up; held is the blocks that wait
		// for it.
		free time.Duration
		held int
		sent int64
		out  map[Sending]*sending
	}
}

// NewStreams makes the streams of a node; it is called before the transport starts.
func NewStreams(o StreamOptions) *Streams {
	o.Limits = o.Limits.withDefaults()
	s := &Streams{o: o}
	s.mu.pulls, s.mu.out = map[string]*pull{}, map[Sending]*sending{}
	o.Local.Truncations().Load(o.Engine, o.Clock, o.Limits.TruncationWait)
	o.Transport.Handle(messaging.Service{Verb: messaging.VerbStream, Name: "stream", Handler: s.serve}) // it reads by o.Run
	return s
}

// ErrCancelled is the outcome of a pull that Cancel or Close ended.
var ErrCancelled = errors.New("rebalance: the stream was cancelled")

// SessionError is why a pull ended before its time. Another Start of the same session goes on where it
// was.
type SessionError struct {
	Session Session
	Err     error
	table   string
	source  string
}

// failure is a SessionError, with the names that the table and the source have now.
func (s *Streams) failure(p Session, err error) *SessionError {
	v := s.o.View
	return &SessionError{Session: p, Err: err, table: v.Schema().NameOf(p.Table), source: v.Topology().NameOf(p.Source)}
}

func (e *SessionError) Error() string {
	return fmt.Sprintf("rebalance: stream of table %s, range %v from %s: %v", e.table, e.Session.Range, e.source, e.Err)
}

// Unwrap is what failed.
func (e *SessionError) Unwrap() error { return e.Err }

// pull is the state of a Session; guarded by Streams.mu, but file and cursor, which belong to the one
// event that is under way.
type pull struct {
	Session
	streams  *Streams
	progress func(bytes int64)
	done     func(error)

	state  SessionState
	ended  bool
	timer  env.Timer
	bytes  int64 // of entries, durable or not
	total  int64 // the source's estimate
	since  time.Duration
	fails  int
	err    error // of the last attempt
	begun  bool  // the source has answered since Start
	after  []byte
	kept   []byte // after, as it is durable
	stored int64  // bytes, as they are durable
	file   *storage.Ingestion
	count  uint64 // of the table's truncations, when the last block was asked for
}

// SessionState is what a pull does at the moment.
type SessionState string

// The states.
const (
	SessionWaiting  SessionState = "waiting"  // for its turn
	SessionFetching SessionState = "fetching" // a block is on its way
	SessionWriting  SessionState = "writing"
	SessionRetrying SessionState = "retrying" // after a failure
	SessionEnded    SessionState = "ended"
)

// Start begins a pull, or goes on with one that an earlier process began. progress, which may be nil,
// is told the bytes that have come, in all; done is called once, with nil when all of it is here and
// on disk, and also when the table was dropped. A session that ended before is done at once, until
// Forget; one of that name that was something else (another epoch, another source) begins anew.
func (s *Streams) Start(p Session, progress func(bytes int64), done func(error)) {
	if progress == nil {
		progress = func(int64) {}
	}
	q := &pull{Session: p, streams: s, progress: progress, done: done, state: SessionWaiting}
	s.mu.Lock()
	if s.mu.closed || s.mu.pulls[p.ID] != nil {
		s.mu.Unlock()
		done(s.failure(p, errors.New("such a session is under way, or the node stops")))
		return
	}
	s.mu.pulls[p.ID] = q
	s.mu.waiting = append(s.mu.waiting, q)
	s.mu.Unlock()
	s.next()
}

// next begins waiting pulls while there is room.
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
		s.o.Run(q.load)
	}
}

// Cancel ends a pull; what has come stays, and Start goes on there.
func (s *Streams) Cancel(session string) {
	s.mu.Lock()
	q := s.mu.pulls[session]
	s.mu.Unlock()
	if q != nil {
		q.end(ErrCancelled)
	}
}

// Forget removes what is known of a session: Start begins it anew.
func (s *Streams) Forget(session string) error {
	s.Cancel(session)
	return s.o.Engine.DeleteLocal(streamKey(session), false)
}

// Close ends all pulls.
func (s *Streams) Close() {
	s.mu.Lock()
	s.mu.closed = true
	var all []*pull
	for _, q := range s.mu.pulls {
		all = append(all, q)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *pull) int { return strings.Compare(a.ID, b.ID) })
	for _, q := range all {
		q.end(ErrCancelled)
	}
}

// Receiving reports whether rows of a table are being streamed to this node.
func (s *Streams) Receiving(table schema.StorageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.pulls {
		if q.Table == table {
			return true
		}
	}
	return false
}

// SessionStatus is how far a pull is.
type SessionStatus struct {
	Session
	State SessionState
	// Bytes have come; the source estimated Total at the start, of what lies compressed on its disk.
	Bytes, Total int64
	Err          error // of the last attempt, when it failed
}

// Status is every pull that has not ended, by session, and how many bytes this node sent to others.
func (s *Streams) Status() (pulls []SessionStatus, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.pulls {
		pulls = append(pulls, SessionStatus{q.Session, q.state, q.bytes, q.total, q.err})
	}
	slices.SortFunc(pulls, func(a, b SessionStatus) int { return strings.Compare(a.ID, b.ID) })
	return pulls, s.mu.sent
}

// The local key of a session and its value:
//
//	stream/ session → epoch 8, source 8, table 4, start 8, end 8, ended 1, bytes uvarint, after
func streamKey(session string) []byte { return append([]byte("stream/"), session...) }

func (q *pull) appendIdentity(dst []byte) []byte {
	dst = wire.AppendUint64(wire.AppendUint64(dst, q.Epoch), uint64(q.Source))
	dst = wire.AppendUint32(dst, uint32(q.Table))
	return wire.AppendInt64(wire.AppendInt64(dst, int64(q.Range.Start)), int64(q.Range.End))
}

// load finds what an earlier process did.
func (q *pull) load() {
	record, err := q.streams.o.Engine.GetLocal(streamKey(q.ID))
	if err != nil {
		q.end(err)
		return
	}
	if rest, same := strings.CutPrefix(string(record), string(q.appendIdentity(nil))); same {
		c := wire.NewCursor([]byte(rest))
		ended := c.Uint8() == 1
		bytes := int64(c.Uvarint())
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

// store notes, after an sstable was ingested, that all up to q.after is here. It needs no sync: what
// is forgotten is fetched again.
func (q *pull) store(ended bool) error {
	var flag byte
	if ended {
		flag = 1
	}
	q.kept, q.stored = q.after, q.bytes // only events of q change bytes
	record := wire.AppendUvarint(append(q.appendIdentity(nil), flag), uint64(q.bytes))
	return q.streams.o.Engine.SetLocal(streamKey(q.ID), append(record, q.after...), false)
}

// enter goes to a state; false when the pull has ended.
func (q *pull) enter(state SessionState) bool {
	q.streams.mu.Lock()
	defer q.streams.mu.Unlock()
	if !q.ended {
		q.state = state
	}
	return !q.ended
}

// fetch asks for the next block.
func (q *pull) fetch() {
	if !q.enter(SessionFetching) {
		q.abort()
		return
	}
	o := &q.streams.o
	if q.begun && o.Local.Truncations().Count(q.Table) != q.count {
		q.restart()
	}
	named, count := o.Local.Truncations().Required(q.Table)
	q.count = count
	request := appendStreamRequest(nil, &streamRequest{
		first: !q.begun, epoch: q.Epoch, table: q.Table, tokens: q.Range, bytesMax: o.Limits.BlockBytes, truncations: named, after: q.after,
	})
	o.Transport.Request(q.Source, messaging.VerbStream, request, o.Limits.Timeout, func(payload []byte, err error) {
		if err != nil {
			o.Run(func() { q.failed(err) }) // it writes to the disk when the pull ends, and this may be a stream's goroutine
			return
		}
		payload = slices.Clone(payload)
		o.Run(func() { q.receive(payload) })
	})
}

// receive takes an answer of the source.
func (q *pull) receive(payload []byte) {
	if !q.enter(SessionWriting) {
		q.abort()
		return
	}
	reply, err := decodeStreamReply(payload)
	if err != nil {
		q.failed(err)
		return
	}
	if o := &q.streams.o; o.Local.Truncations().Count(q.Table) != q.count {
		q.restart()
		q.fetch()
		return
	}
	err = q.write(&reply)
	if errors.Is(err, errStreamTruncated) {
		q.restart()
		q.fetch()
		return
	}
	if unknown := (*storage.UnknownTable)(nil); errors.As(err, &unknown) {
		q.abort()
		q.end(nil) // there is nothing left to bring
		return
	}
	if err != nil {
		q.failed(err)
		return
	}
	q.streams.mu.Lock()
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

// write adds a block to the file, and ingests that when it is large enough or the last.
func (q *pull) write(reply *streamReply) error {
	o := &q.streams.o
	if q.file == nil {
		q.file = o.Engine.NewIngestion(q.Table, q.Range)
	}
	before := q.file.Size()
	if err := q.file.Add(reply.block); err != nil {
		return err
	}
	q.streams.mu.Lock()
	q.bytes += q.file.Size() - before
	q.streams.mu.Unlock()
	q.after = reply.next
	if reply.next != nil && q.file.Size() < o.Limits.FileBytes {
		return nil
	}
	file := q.file
	q.file = nil
	valid, err := o.Local.Truncations().Commit(q.Table, q.count, file.Commit)
	if !valid {
		file.Abort()
		return errStreamTruncated
	}
	o.Changed(q.Table)
	if err != nil {
		return err
	}
	return q.store(reply.next == nil)
}

// restart goes back to the beginning of the range, because the table was truncated here.
func (q *pull) restart() {
	q.kept, q.stored = nil, 0
	q.abort()
	q.begun = false
}

// abort throws away the file that is not complete and goes back to what is durable.
func (q *pull) abort() {
	if q.file != nil {
		q.file.Abort()
		q.file = nil
	}
	q.streams.mu.Lock()
	q.bytes = q.stored
	q.streams.mu.Unlock()
	q.after = q.kept
}

// failed tries again after a while what may succeed then; else it ends the pull. A source that has left the ring does not come
// back: the pull ends at once, and its range is fetched from another node.
func (q *pull) failed(err error) {
	s := q.streams
	left := s.o.View.Topology().Node(q.Source) == nil
	lost := errors.Is(err, messaging.ErrTimeout) || errors.Is(err, messaging.ErrUnreachable) ||
		errors.Is(err, messaging.ErrOverloaded) || errors.Is(err, errStreamNotYet) || errors.Is(err, errStreamChecksum)
	var remote *messaging.RemoteError
	lost = lost || errors.As(err, &remote) && remote.Code == messaging.CodeOverloaded
	lost = lost && !left
	full := errors.Is(err, storage.ErrDiskFull)
	if !lost {
		q.abort()
	}
	s.mu.Lock()
	q.err = err
	waited := s.o.Clock.Monotonic() - q.since
	if !lost && !full || waited > s.o.Limits.RetryFor {
		s.mu.Unlock()
		q.abort()
		q.end(err)
		return
	}
	if q.ended {
		s.mu.Unlock()
		q.abort()
		return
	}
	q.state = SessionRetrying
	pause := min(s.o.Limits.RetryMin<<min(q.fails, 16), s.o.Limits.RetryMax)
	q.fails++
	q.timer = s.o.Clock.After(pause, func() { s.o.Run(q.fetch) })
	s.mu.Unlock()
}

// end ends the pull, once. The file of one that is cancelled is thrown away by the event that is under
// way, or else at the next start of the node.
func (q *pull) end(err error) {
	s := q.streams
	s.mu.Lock()
	if q.ended {
		s.mu.Unlock()
		return
	}
	waiting := slices.Index(s.mu.waiting, q)
	if waiting >= 0 {
		s.mu.waiting = slices.Delete(s.mu.waiting, waiting, waiting+1)
	} else {
		s.mu.active--
	}
	idle := q.state == SessionRetrying && q.timer.Stop()
	q.ended, q.state = true, SessionEnded
	delete(s.mu.pulls, q.ID)
	s.mu.Unlock()
	if idle {
		q.abort()
	}
	if err != nil {
		err = s.failure(q.Session, err)
	}
	q.done(err)
	s.next()
}
