package backups

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cqld/backup/bucket/buckettest"
	"cqld/node/backups"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
)

// Host is the simulated cluster.
type Host interface {
	// Processes returns the processes that serve, in the order of their machines. The same process is the same pointer.
	Processes() []*Process
	// Table returns the newest version of a table, or nil.
	Table(name string) *schema.Table
	// Tick numbers what clients observe, and Stamp returns a timestamp after all earlier ones.
	Tick() int64
	Stamp() int64
	// Healed reports whether all faults have ended.
	Healed() bool
	// Later calls f after d, unless the cluster is healed then.
	Later(d time.Duration, label string, f func())
	// Fail records a violation, and Count an event.
	Fail(format string, args ...any)
	Count(event string)
	// Begin records that an operation of docs/MEETINGS.md is in progress until end is called.
	Begin(operation string) (end func())
	// Excuse records that hints do not make the replicas of a table equal.
	Excuse(schema.StorageID)
	// Truncating records that a TRUNCATE begins, or that one has succeeded.
	Truncating(begins bool)
	// Fresh returns another cluster without tables and faults, with its kernel, or nil if it cannot be made.
	Fresh(nodes, factor int) (Host, *kernel.Kernel)
}

// Saved is the table that is written and backed up.
const Saved = "saved"

// Workload writes a table, and makes and restores backups of it. Its methods are called outside of events, one after
// the other: Start, Idle until it is true, ReadBack, Check and Counts.
type Workload struct {
	// The following faults must be found: the store loses an object with each outage, and changes that were not sent
	// count as acknowledged. Both are set before Start.
	LoseObjects, AcknowledgeUnsent bool
	// Directory makes the store a directory of a machine whose power is cut, instead of a bucket. Unsynced makes syncs
	// on it ineffective, which must be found. Both are set before Start.
	Directory, Unsynced bool
	// Archive makes the nodes archive their logs, and the operator restores moments and truncates the table. It is set
	// before Start.
	Archive bool

	host   Host
	kernel *kernel.Kernel
	seed   uint64
	// writing and operating draw for the clients and for the operator.
	writing, operating *kernel.Stream
	store              *store
	changes            history
	backups            []*made
	restored           []*restored
	// replacements are restorations in the place of the table Replaced.
	replacements []*replacement
	// empty is a table that the operator creates, drops, restores and purges; it has no rows.
	empty *restored
	// stamped contains the tick of each time of a backup, and until the first tick at which it was complete.
	stamped, until map[int64]int64
	// tasks numbers attempts, and running are in progress.
	tasks, running int
	tried, acked   int
	healed         bool
	// timing draws for the operator of moments. moments are hybrid times that were noted, and truncated the TRUNCATEs
	// of Saved.
	timing    *kernel.Stream
	moments   []int64
	moved     map[int64]uint64 // the epoch of the ring's last change at each moment
	truncated []*span
}

// made is a backup. Its job may have several attempts, also after it was deleted and swept: it is then another backup
// with the same name.
type made struct {
	name, job string
	scope     []string
	// complete means that an attempt has reported success, and deleted that its deletion was begun.
	complete, deleted bool
	moved             uint64 // the epoch of the ring's last change
}

// restored is a restoration, with all its attempts. The seed of its job follows from its name, so that a later attempt
// finds the table of an earlier one, as a resumed job does.
type restored struct {
	from *made
	// moment is the hybrid time that is restored; 0 means the time of the backup.
	moment    int64
	name      string // of the new table
	attempted int
	// done is the table of an attempt that has reported success; 0 means none has.
	done schema.StorageID
	// dropped contains all tables of the name that were dropped, and purged the tables of PURGE TABLE.
	dropped, purged []schema.StorageID
}

const (
	// location is shown in errors only.
	location   = "memory://backups"
	clients    = 3
	partitions = 4
	clustered  = 5 // rows of a partition
	atOnce     = 3 // operations of the operator
	// attachEvery is how soon a new process gets its part of backups.
	attachEvery  = 20 * time.Millisecond
	attemptsMost = 4
	// restoredMost bounds the tables of a run. Each is read from every node at the end.
	restoredMost = 6
)

// New returns the workload of a cluster, whose table Saved exists.
func New(h Host, k *kernel.Kernel, seed uint64) *Workload {
	w := &Workload{host: h, kernel: k, seed: seed, writing: kernel.NewStream(seed, "saved"),
		operating: kernel.NewStream(seed, "backups"), timing: kernel.NewStream(seed, "moments"),
		moved:   map[int64]uint64{},
		stamped: map[int64]int64{}, until: map[int64]int64{}, empty: &restored{name: "dropped"}, changes: history{}}
	memory := buckettest.NewMemory()
	memory.Now = func() time.Time { return time.Unix(storeEpoch, 0).Add(k.Now()) }
	w.store = &store{memory: memory, random: kernel.NewStream(seed, "store of backups"),
		healed: func() bool { return w.healed || w.host.Healed() }, count: h.Count, kernel: k}
	return w
}

// storeEpoch is the start of the store's clock, in Unix seconds, which is the clock of the nodes without its errors.
const storeEpoch = 1_700_000_000

// Start starts the clients and the operator.
func (w *Workload) Start() {
	if w.Directory {
		var err error
		if w.store.machine, err = newMachine(); err != nil {
			w.host.Fail("the directory of backups cannot be made: %v", err)
			return
		}
		w.store.machine.unsynced = w.Unsynced
	}
	w.attach()
	for range clients {
		w.write()
	}
	w.operate()
	w.outages()
	if w.Archive {
		w.operateMoments()
	}
}

// outages schedules outages of the store.
func (w *Workload) outages() {
	w.host.Later(w.store.random.Between(100*time.Millisecond, 3*time.Second), "outage of the store of backups", func() {
		if w.store.machine != nil && w.store.random.Chance(500) {
			w.store.machine.cut(w.store.random)
			w.host.Count("power cuts of the store of backups")
		}
		w.store.strike()
		if w.LoseObjects {
			w.store.lose()
		}
		w.outages()
	})
}

// Idle reports whether no operation of the operator is in progress.
func (w *Workload) Idle() bool { return w.running == 0 }

// Counts returns how many operations were begun and how many succeeded.
func (w *Workload) Counts() (tried, acked int) { return w.tried, w.acked }

// attach gives new processes their part of backups.
func (w *Workload) attach() {
	for _, p := range w.host.Processes() {
		if p.node != nil {
			continue
		}
		err := p.attach(w.kernel, w.store, func(at int64) { w.stamped[at] = w.host.Tick() })
		if err != nil && !p.Failing() {
			w.host.Fail("%s cannot remove its old checkpoints: %v", p.Name, err)
		}
		if w.Archive {
			p.beginArchive(w.store)
		}
	}
	// The replicas of a restoration that has failed differ until another attempt or a repair.
	for _, x := range w.restored {
		if t := w.host.Table(x.name); t != nil && t.StorageID != x.done {
			w.host.Excuse(t.StorageID)
		}
	}
	w.excuseReplaced()
	w.kernel.After(attachEvery, "attach backups", w.attach)
}

// any returns a process that takes part in backups, or nil.
func (w *Workload) any(r *kernel.Stream) *Process {
	n := r.Uint64()
	all := slices.DeleteFunc(w.host.Processes(), func(p *Process) bool { return p.node == nil })
	if len(all) == 0 {
		return nil
	}
	return all[n%uint64(len(all))]
}

// write schedules a client's change of a row. Clients do not wait for each other and not for their own requests, so
// that changes of one row overlap. Rows are few: most are overwritten and deleted several times between two backups.
func (w *Workload) write() {
	r := w.writing
	w.host.Later(r.Between(5*time.Millisecond, 60*time.Millisecond), "saved", func() {
		w.write()
		key, clustering := fmt.Sprint("saved", r.Intn(partitions)), fmt.Sprint(r.Intn(clustered))
		deletes, level := r.Chance(250), ring.Quorum
		if r.Chance(300) {
			level = ring.All
		}
		p := w.any(r)
		if p == nil {
			return
		}
		// The timestamp is of a perfect clock, in the order of the calls: the last one wins on all replicas.
		x := w.changes.add(key, clustering, w.host.Stamp(), deletes, w.host.Tick())
		w.tried++
		x.begunAt = p.Stamp()
		if w.AcknowledgeUnsent && r.Chance(100) {
			x.acked, x.ackedAt = w.host.Tick(), p.Stamp()
			return
		}
		p.Do(func() {
			p.Write(w.mutation(x, p), level, func(err error) {
				w.kernel.Trace(fmt.Sprint("saved ", x.stamp, err))
				if err == nil {
					w.acked++
					x.acked, x.ackedAt = w.host.Tick(), p.Stamp()
				}
			})
		})
	})
}

// mutation returns a change as clients send it.
func (w *Workload) mutation(x *change, p *Process) *row.Mutation {
	table := w.host.Table(Saved)
	m := &row.Mutation{}
	m.Reset(table.StorageID, row.NewPartitionKey([]byte(x.key)))
	r := texttable.Row(table, x.clustering, x.value(), x.stamp)
	if x.deletes {
		r = row.NewRow()
		r.Clustering = []byte(x.clustering)
		r.Deletion = row.Deletion{Timestamp: x.stamp, LocalTime: p.Clock.Now().Unix()}
	}
	m.AddRow(r)
	return m
}

// operate schedules the operator's next command. All numbers are drawn before it is known whether the command is
// possible, so that the state of the ring does not change later draws.
func (w *Workload) operate() {
	r := w.operating
	w.host.Later(r.Between(20*time.Millisecond, 300*time.Millisecond), "operate backups", func() {
		w.operate()
		what, which, some, both := r.Intn(100), r.Uint64(), r.Chance(700), r.Chance(250)
		p := w.any(r)
		// A node works on one backup or restoration at a time: most others would only be refused.
		if p == nil || w.running > 0 && !both || w.running >= atOnce {
			return
		}
		switch {
		case what < 30 || len(w.backups) == 0:
			b := &made{name: fmt.Sprint("b", len(w.backups)), job: fmt.Sprint("job", len(w.backups))}
			if some {
				b.scope = []string{texttable.Keyspace + "." + Saved}
			}
			w.backups = append(w.backups, b)
			w.create(p, b)
		case what < 50:
			// Another attempt of the job, also of one that has succeeded. The node that led an earlier attempt may have
			// ended, or may still work on it.
			w.create(p, w.backups[which%uint64(len(w.backups))])
		// Sometimes of a backup that is not complete, which must be refused.
		case what < 60 && len(w.restored) < restoredMost:
			b := w.choose(which)
			if !b.complete && some {
				return
			}
			x := &restored{from: b, name: fmt.Sprint("restored", len(w.restored))}
			w.restored = append(w.restored, x)
			w.restore(p, x)
		case what < 70:
			w.operateReplacement(p, which, some)
		// Another attempt continues with the tables of the first.
		case what < 82 && len(w.restored) > 0:
			if x := w.restored[which%uint64(len(w.restored))]; x.attempted < attemptsMost {
				w.restore(p, x)
			}
		case what < 91:
			// The first one exists without a restoration, so that some runs undo many drops.
			all := append([]*restored{w.empty}, w.restored...)
			w.undo(p, all[which%uint64(len(all))], both)
		default:
			b := w.choose(which)
			if !b.complete && some {
				return
			}
			grace := r.Between(0, 2*time.Second)
			w.sweep(p, b, !some, grace)
		}
	})
}

// choose returns a backup, and a complete one rather than another.
func (w *Workload) choose(n uint64) *made {
	for i := range uint64(len(w.backups)) {
		if b := w.backups[(n+i)%uint64(len(w.backups))]; b.complete && !b.deleted {
			return b
		}
	}
	return w.backups[n%uint64(len(w.backups))]
}

// task runs an operation of the operator at a process. It ends with the process.
func (w *Workload) task(p *Process, operation string, do func(ctx context.Context) error) {
	p.Do(func() {
		p.RunTask(func() {
			w.running++
			w.tried++
			end := w.host.Begin(operation)
			defer func() {
				w.running--
				// Other nodes may still remove rows or objects, or end their parts.
				w.kernel.After(meetings.Lingers, "ended", end)
			}()
			err := do(context.Background())
			if err == nil {
				w.acked++
				w.host.Count(operation + " completed")
			}
			// Noted: errors contain hashes of files, which depend on goroutines of Pebble.
			w.kernel.Note(p.Name, operation, err)
		})
	})
}

// newTask returns the name of an attempt, which no other attempt has: it is also the name of a directory.
func (w *Workload) newTask() string {
	w.tasks++
	return fmt.Sprint("task", w.tasks)
}

// create makes an attempt to make a backup.
func (w *Workload) create(p *Process, b *made) {
	c := &backups.Creation{Location: location, Name: b.name, Scope: b.scope, Job: b.job, Task: w.newTask()}
	w.task(p, meetings.Backup, func(ctx context.Context) error {
		m, err := p.node.Create(ctx, c, func(int64, int64, string) {})
		if err == nil {
			b.complete, b.moved = true, p.moved()
			if w.until[m.HybridTime] == 0 {
				w.until[m.HybridTime] = w.host.Tick()
			}
		}
		return err
	})
}

// restore makes an attempt to restore a table under another name.
func (w *Workload) restore(p *Process, x *restored) {
	x.attempted++
	o := w.restoration(x)
	w.task(p, meetings.Restoration, func(ctx context.Context) error {
		err := p.restore(ctx, w.host, w.store, &o)
		// Later attempts, as of a job, use the same backup.
		x.from.name = o.Name
		if table := p.table(x.name); err == nil && table != nil {
			x.done = table.StorageID
		}
		return err
	})
}

// restoration returns the arguments of an attempt.
func (w *Workload) restoration(x *restored) backups.Restoration {
	return backups.Restoration{Location: location, Name: x.from.name, Scope: []string{texttable.Keyspace + "." + Saved},
		At: x.moment, As: texttable.Keyspace + "." + x.name, Seed: fmt.Sprint("seed of ", x.name), Task: w.newTask()}
}

// sweep is what `cqld ctl backup delete` does with a short grace. It deletes a backup, or only removes what was deleted
// before.
func (w *Workload) sweep(p *Process, b *made, deletes bool, grace time.Duration) {
	w.task(p, meetings.Sweep, func(ctx context.Context) error {
		s := p.open(w.store, location)
		if deletes {
			b.deleted = true
			if err := s.Delete(ctx, b.name, p.Clock.Now()); err != nil {
				return err
			}
		}
		_, err := s.Sweep(ctx, p.Clock.Now(), grace)
		return err
	})
}
