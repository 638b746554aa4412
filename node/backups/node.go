package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/backup"
	"cqld/cluster"
	"cqld/internal/env"
	"cqld/node/datadir"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Options configure New. All fields are required, except Limits.
type Options struct {
	Dir     string // the data directory
	Disk    vfs.FS // of Dir
	Open    func(location string) (*backup.Store, error)
	Cluster *cluster.Cluster
	// ProposeSchema and ProposeRoles are the methods of Cluster.
	ProposeSchema func(context.Context, schema.Change) error
	ProposeRoles  func(context.Context, auth.Change) error
	Engine        *storage.Engine
	Flush         func(context.Context) error // Engine.FlushUntil
	Truncations   Truncations
	Repaired      *repair.History
	Changed       func(schema.StorageID) // is called after rows of a table were added
	// Unbuilt reports whether this node has not built an index or a view of a table.
	Unbuilt func(schema.StorageID) bool
	// DropGrace returns how long tables that are replaced now can be restored with UNDROP TABLE; 0 means not at all.
	DropGrace func() time.Duration
	// Lacks describes what the storage engine has lost.
	Lacks    func() []string
	Stamp    func() int64 // the hybrid clock, in microseconds
	Clock    env.Clock
	Await    env.Await
	Run      func(func())    // runs a function in a goroutine that the node waits for
	Lifetime context.Context // ends when the node stops
	// Rate is how many bytes a node reads per second.
	Rate int64
	// Busy returns the share of the processors that is in use, between 0 and 1. A node that makes a backup reads fewer
	// bytes while it is high. nil means 0.
	Busy func() float64
	// Ask sends a request to another node.
	Ask  func(node ring.NodeID, request []byte, reply func(answer []byte, err error))
	Name string // of the cluster
	// ID identifies the cluster, and Build this version of cqld.
	ID    func() string
	Build string
	Log   *slog.Logger
	// Limits has the default for a field of zero.
	Limits Limits
}

// Limits bound waits for other nodes.
type Limits struct {
	// Lease is how long a task continues without a question of its leader; the default is a minute.
	Lease time.Duration
	// Patience is how long the leader waits for a node that does not answer; the default is 45 seconds. It is shorter
	// than Lease, so that the tasks of the other nodes continue.
	Patience time.Duration
	// Confirm is how long the leader waits for a majority of the voters of the metadata; the default is 30 seconds.
	Confirm time.Duration
	// Settle is how long a step waits for metadata that the leader has already; the default is 10 seconds.
	Settle time.Duration
}

// Truncations is the interface of the truncations of this node's replica.
type Truncations interface {
	Count(id schema.StorageID) uint64
	Commit(id schema.StorageID, count uint64, f func() error) (ok bool, err error)
}

// Node does this node's part of backups and restorations, and leads those that its operators start.
type Node struct {
	o     Options
	tasks tasks
}

// checkpointsDir is the directory of checkpoints, in the data directory.
const checkpointsDir = "backups"

// New returns the backups of a node. It removes the checkpoint of an earlier process.
func New(o Options) (*Node, error) {
	l := &o.Limits
	l.Lease, l.Patience = cmp.Or(l.Lease, time.Minute), cmp.Or(l.Patience, 45*time.Second)
	l.Confirm, l.Settle = cmp.Or(l.Confirm, 30*time.Second), cmp.Or(l.Settle, 10*time.Second)
	n := &Node{o: o, tasks: tasks{clock: o.Clock, await: o.Await, lease: l.Lease, run: o.Run, lifetime: o.Lifetime}}
	n.tasks.expired = func(task string) {
		if err := n.removeCheckpoint(task); err != nil {
			o.Log.Warn("a checkpoint of a backup was not removed", "task", task, "err", err)
		}
	}
	return n, n.removeCheckpoint("")
}

// directory returns the directory of the checkpoint of a task. Tasks have different ones, so that the end of one does
// not remove the files of the next.
func (n *Node) directory(task string) string { return filepath.Join(n.o.Dir, checkpointsDir, task) }

// removeCheckpoint removes the checkpoint of a task; an empty name means all.
func (n *Node) removeCheckpoint(task string) error {
	err := n.o.Disk.RemoveAll(n.directory(task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Serve answers a request of another node, or of this one if it leads. It begins work and does not wait for it, except
// for End, which waits until the work has stopped.
func (n *Node) Serve(message []byte) ([]byte, error) {
	r, err := decodeRequest(message)
	if err != nil {
		return nil, err
	}
	reply, err := n.serve(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

// serve performs a request.
func (n *Node) serve(r *Request) (Reply, error) {
	switch r.Step {
	case Checkpoint:
		return Reply{Running: true}, n.tasks.begin(r, func(ctx context.Context, _ func(int64, int64)) error {
			return n.checkpoint(ctx, r)
		})
	case Upload:
		return Reply{Running: true}, n.tasks.begin(r, func(ctx context.Context, progress func(int64, int64)) error {
			return n.upload(ctx, r, progress)
		})
	case Verify, VerifyMoment:
		return Reply{Running: true}, n.tasks.begin(r, func(ctx context.Context, progress func(int64, int64)) error {
			return n.verify(ctx, r, progress)
		})
	case Restore, RestoreMoment:
		return Reply{Running: true}, n.tasks.begin(r, func(ctx context.Context, progress func(int64, int64)) error {
			return n.restore(ctx, r, progress)
		})
	case Build:
		return Reply{Running: true}, n.tasks.begin(r, func(ctx context.Context, progress func(int64, int64)) error {
			return n.build(ctx, r, progress)
		})
	case Poll:
		return n.tasks.poll(r)
	case End:
		if n.tasks.end(r) {
			return Reply{}, n.removeCheckpoint(r.Task)
		}
		return Reply{}, nil
	}
	return Reply{}, fmt.Errorf("this version of cqld does not know the step %.20q of a backup", r.Step)
}

// checkpoint makes a checkpoint of the tables of a backup.
func (n *Node) checkpoint(ctx context.Context, r *Request) error {
	if err := n.settled(ctx, r.Epoch); err != nil {
		return err
	}
	// Only the user of the process may read it, as it contains all data.
	dir := n.directory(r.Task)
	if err := datadir.MakeDurable(n.o.Disk, dir); err != nil {
		return err
	}
	// Rows in the log would be copied, stored and read by all nodes at a restoration.
	flushing, cancel := n.bound(ctx, flushMax)
	err := n.o.Flush(flushing)
	late := flushing.Err() != nil && ctx.Err() == nil
	cancel()
	if err != nil && !late {
		return err
	}
	if err := n.o.Engine.CheckpointTables(n.o.Disk.PathJoin(dir, backup.FilesDir), r.Tables); err != nil {
		return err
	}
	// A range that this node has given away meanwhile may be missing from the checkpoints of all nodes.
	return n.settled(ctx, r.Epoch)
}

// errRingChanged means that rows may have moved from a node before its part of a task to another one after it.
var errRingChanged = errors.New("the ring changes: try again, or resume the job, when `cqld ctl operations` shows " +
	"nothing")

// settled returns an error unless this node knows the ring of an epoch, without an operation in progress. It waits a
// while for metadata that the leader has and this node has not yet.
func (n *Node) settled(ctx context.Context, epoch uint64) error {
	for end := n.o.Clock.Monotonic() + n.o.Limits.Settle; ; {
		t := n.o.Cluster.Metadata().Topology
		if t.Moved() == epoch && len(t.Operations()) == 0 {
			return nil
		}
		if t.Moved() > epoch || n.o.Clock.Monotonic() > end {
			return errRingChanged
		}
		if err := n.sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// upload stores the files of the checkpoint, and their list.
func (n *Node) upload(ctx context.Context, r *Request, progress func(done, total int64)) error {
	s, err := n.o.Open(r.Location)
	if err != nil {
		return err
	}
	attempt, err := s.Attempt(ctx, r.Backup)
	if err == nil && attempt.Nonce != r.Nonce {
		err = errOtherStore
	}
	if err != nil {
		return err
	}
	dir := n.o.Disk.PathJoin(n.directory(r.Task), backup.FilesDir)
	names, err := n.o.Disk.List(dir)
	if err != nil {
		return fmt.Errorf("the checkpoint is missing: %w", err)
	}
	// In the order of names, another attempt reports the same progress.
	slices.Sort(names)
	// What the node had lost is listed with the backup, so that an operator learns it before the backup is needed.
	share := &backup.Share{Node: n.o.Cluster.Self(), Host: n.o.Cluster.HostID().String(), Lacks: n.o.Lacks()}
	total, err := n.sizes(dir, names)
	if err != nil {
		return err
	}
	share.Files = make([]backup.File, len(names))
	var mu sync.Mutex
	var done int64
	pace := n.pacer(ctx, n.yielding)
	err = s.PutAll(ctx, len(names), func(ctx context.Context, i int) error {
		path := n.o.Disk.PathJoin(dir, names[i])
		// A damaged file would make the backup of all nodes useless: a restoration reads it to its end.
		check := func() error {
			if !strings.HasSuffix(names[i], ".sst") {
				return nil
			}
			return n.o.Engine.CheckFile(ctx, path, func(_ context.Context, bytes int) error { return pace(bytes) })
		}
		open := func() (io.ReadCloser, error) { return n.o.Disk.Open(path) }
		o, stored, err := s.PutChecked(ctx, open, check, pace)
		if err != nil {
			return fmt.Errorf("store %s: %w", names[i], err)
		}
		share.Files[i] = backup.File{Name: names[i], Object: o}
		mu.Lock()
		defer mu.Unlock()
		if stored {
			share.Stored += o.Size
		}
		done += o.Size
		progress(done, total)
		return nil
	})
	if err != nil {
		return err
	}
	return s.PutShare(ctx, r.Backup, share)
}

// errOtherStore means that a location is not the same directory on all nodes.
var errOtherStore = errors.New("this node and the node that leads the task see different backups at the location: " +
	"all nodes must use the same one, for example a shared directory")

// sizes returns the size of files of a checkpoint, which do not change, for the progress of the job.
func (n *Node) sizes(dir string, names []string) (total int64, err error) {
	for _, name := range names {
		i, err := n.o.Disk.Stat(n.o.Disk.PathJoin(dir, name))
		if err != nil {
			return 0, err
		}
		total += i.Size()
	}
	return total, nil
}

// steady returns Rate: the pace of work that an operator waits for.
func (n *Node) steady() int64 { return n.o.Rate }

// yielding returns the pace of work that must not be noticed by clients: Rate while at least half of the processors are
// idle, and down to a quarter of it while fewer are. A quarter is left, so that a backup always ends.
func (n *Node) yielding() int64 {
	if n.o.Busy == nil {
		return n.o.Rate
	}
	return max(int64(float64(n.o.Rate)*min(1, 2*(1-n.o.Busy()))), n.o.Rate/4, 1)
}

// pacer returns a function that waits so that no more bytes than rate, which may change, are read per second. It is
// safe for concurrent use.
func (n *Node) pacer(ctx context.Context, rate func() int64) func(int) error {
	// A pause follows the reading that has exceeded the rate. Several readers share the rate.
	var mu sync.Mutex
	var ahead time.Duration // of the rate, since last
	last := n.o.Clock.Monotonic()
	return func(bytes int) error {
		perSecond := rate()
		mu.Lock()
		now := n.o.Clock.Monotonic()
		ahead = max(ahead-(now-last), 0) + time.Duration(int64(bytes)*int64(time.Second)/perSecond)
		last = now
		wait := ahead
		mu.Unlock()
		// Shorter pauses would be mostly overhead.
		if wait < 20*time.Millisecond {
			return nil
		}
		return n.sleep(ctx, wait)
	}
}
