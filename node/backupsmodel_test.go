package node

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/internal/tier"
	"cqld/node/config"
	"cqld/node/control"
)

// modelRow is a row with one writer. Its operation i sets it to i, or deletes it if i is a multiple of 7.
type modelRow struct {
	sent, acked []time.Time // of the operations 1, 2, …; acked may be one shorter
}

// deletes reports whether an operation is a deletion.
func deletes(operation int) bool { return operation%7 == 0 }

// contains reports whether a restored value is the state of the row at a moment of a backup which began and ended at
// these times. 0 means that there is no row.
func (m *modelRow) contains(value int, began, ended time.Time) bool {
	low := 0 // the last operation that was acknowledged before
	for low < len(m.acked) && m.acked[low].Before(began) {
		low++
	}
	for i := low; i <= len(m.sent) && (i <= low || m.sent[i-1].Before(ended)); i++ {
		if state := i; state == value || value == 0 && (i == 0 || deletes(i)) {
			return i == 0 || deletes(i) == (value == 0)
		}
	}
	return false
}

// backupModel is a ring with clients that write while it is backed up.
type backupModel struct {
	*inProcess
	random *rand.Rand
	stop   atomic.Bool
	wait   sync.WaitGroup
	rows   [40]modelRow // of a.t
	counts [5]modelRow  // of a.n, whose operations add 1
	tables []string     // with one row each, in the order in which they were created
	made   []time.Time  // when the rows of tables were acknowledged
	writes atomic.Int64 // that were acknowledged
	// quiet is held during each statement, and exclusively while a node is killed: the disk of its next process is a
	// copy, which would lack what the old one still acknowledges.
	quiet sync.RWMutex
}

// executed executes a statement at QUORUM.
func (b *backupModel) executed(c *cqlclient.Conn, text string) bool {
	b.quiet.RLock()
	defer b.quiet.RUnlock()
	_, err := send(c, text, cqlclient.Options{Consistency: 4})
	return err == nil
}

// killQuietly kills a node while no statement is executed.
func (b *backupModel) killQuietly(i int) {
	b.quiet.Lock()
	defer b.quiet.Unlock()
	b.kill(i, nil)
}

// writer writes rows with the numbers first, first + step, … until stop.
func (b *backupModel) writer(c *cqlclient.Conn, first, step int) {
	data := make([]byte, 2048)
	random := rand.NewPCG(uint64(first), 3)
	// An operation that failed is repeated, which does not change its effect.
	for k := first; !b.stop.Load(); k = (k + step) % len(b.rows) {
		m := &b.rows[k]
		i := len(m.acked) + 1
		if len(m.sent) < i {
			m.sent = append(m.sent, time.Now())
		}
		for at := range data { // cannot be compressed, so that storing it takes some time
			data[at] = byte(random.Uint64())
		}
		text := fmt.Sprintf("INSERT INTO a.t (k, c, v, data) VALUES (%d, %d, '%d', 0x%x)", k%9, k, i, data)
		if deletes(i) {
			text = fmt.Sprintf("DELETE FROM a.t WHERE k = %d AND c = %d", k%9, k)
		}
		if b.executed(c, text) {
			m.acked = append(m.acked, time.Now())
			b.writes.Add(1)
		}
		if k >= len(b.counts) {
			continue
		}
		n := &b.counts[k]
		n.sent = append(n.sent, time.Now())
		text = fmt.Sprintf("UPDATE a.n SET v = v + 1 WHERE k = %d", k)
		if b.executed(c, text) {
			n.acked = append(n.acked, time.Now())
		}
	}
}

// changeSchema creates tables with a row, and adds a column to a.t, n times.
func (b *backupModel) changeSchema(c *cqlclient.Conn, n int) {
	for i := range n {
		name := fmt.Sprintf("x%d", i)
		ok := true
		for _, text := range []string{fmt.Sprintf("CREATE TABLE a.%s (k int PRIMARY KEY)", name),
			fmt.Sprintf("INSERT INTO a.%s (k) VALUES (1)", name), fmt.Sprintf("ALTER TABLE a.t ADD y%d int", i)} {
			ok = b.executed(c, text) && ok
		}
		if ok {
			b.tables, b.made = append(b.tables, name), append(b.made, time.Now())
		}
	}
}

// completed makes a backup, and resumes its job until it is complete. event happens while it is in a random phase.
func (b *backupModel) completed(location string, event func()) control.Backup {
	b.t.Helper()
	ended := make(chan error, 1)
	leader := b.nodes[0]
	b.wait.Go(func() {
		_, err := leader.commands.Backups.Create(b.t.Context(), control.BackupArgs{Location: location, Name: "b"},
			func(control.Progress) {})
		ended <- err
	})
	phase := []string{"making checkpoints", "storing files"}[b.random.IntN(2)]
	b.await(leader, "backup", phase)
	event()
	err := <-ended
	b.t.Logf("the first attempt, which was %s, ended with: %v", phase, err)
	b.resume("backup", err)
	all, err := b.nodes[0].commands.Backups.List(b.t.Context(), control.BackupArgs{Location: location, Name: "b"}, nil)
	if err != nil || len(all.Backups) != 1 || all.Backups[0].Problem != "" {
		b.t.Fatalf("%+v, %v", all, err)
	}
	v, err := b.nodes[0].commands.Backups.Verify(b.t.Context(), control.BackupArgs{Location: location, Name: "b"},
		func(control.Progress) {})
	if err != nil || len(v.Problems) > 0 {
		b.t.Fatalf("%+v, %v", v, err)
	}
	return all.Backups[0]
}

// await waits until the job of a kind at a node is in a phase, or has ended.
func (b *backupModel) await(leader *Node, kind, phase string) {
	b.t.Helper()
	b.eventually("a job to be "+phase, func() bool {
		for _, j := range leader.commands.Jobs.All() {
			if string(j.Kind) == kind && (j.Phase == phase || j.State.Ended()) {
				return true
			}
		}
		return false
	})
}

// resume resumes the only job of a kind at the first node until it is done.
func (b *backupModel) resume(kind string, err error) {
	b.t.Helper()
	if err == nil {
		return
	}
	jobs, last := b.nodes[0].commands.Jobs, ""
	// A ring that changes refuses attempts for a while.
	b.eventually("the "+kind+" to be done", func() bool {
		for _, j := range jobs.All() {
			if string(j.Kind) != kind {
				continue
			}
			if _, err := jobs.Resume(b.t.Context(), control.JobArgs{ID: j.ID}, nil); err != nil {
				b.t.Fatal(err)
			}
			done, err := jobs.Watch(b.t.Context(), control.JobArgs{ID: j.ID}, func(control.Progress) {})
			if err != nil {
				b.t.Fatal(err)
			}
			if last != done.Error {
				b.t.Logf("a further attempt: %s", done.Error)
			}
			last = done.Error
			return done.State == "done"
		}
		return false
	})
	if b.t.Failed() {
		b.t.FailNow()
	}
}

// mustEqualModel reads everything at a node at ONE.
func (b *backupModel) mustEqualModel(i int, began, ended time.Time, of *backupModel) {
	b.t.Helper()
	b.eventually("clients to be served", func() bool {
		c, err := cqlclient.Dial(b.nodes[i].opts.Native().String(), 5)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	c := b.connect(i)
	read := func(text string) [][][]byte {
		b.t.Helper()
		a, err := send(c, text, cqlclient.Options{Consistency: 1, PageSize: 5000})
		if err != nil {
			b.t.Fatalf("node %d: %s: %v", i, text, err)
		}
		return a.Rows
	}
	var rows [len(of.rows)]int
	for _, row := range read("SELECT c, v FROM a.t") {
		v, err := strconv.Atoi(string(row[1]))
		if err != nil {
			b.t.Fatal(err)
		}
		rows[binary.BigEndian.Uint32(row[0])] = v
	}
	for k := range rows {
		if !of.rows[k].contains(rows[k], began, ended) {
			b.t.Errorf("node %d: row %d is %d; %d operations were acknowledged", i, k, rows[k], len(of.rows[k].acked))
		}
	}
	var counts [len(of.counts)]int
	for _, row := range read("SELECT k, v FROM a.n") {
		counts[binary.BigEndian.Uint32(row[0])] = int(binary.BigEndian.Uint64(row[1]))
	}
	for k := range counts {
		low, high := 0, 0
		for _, at := range of.counts[k].acked {
			if at.Before(began) {
				low++
			}
		}
		for _, at := range of.counts[k].sent {
			if at.Before(ended) {
				high++
			}
		}
		if counts[k] < low || counts[k] > high {
			b.t.Errorf("node %d: counter %d is %d, not from %d to %d", i, k, counts[k], low, high)
		}
	}
	for j, name := range of.tables {
		if of.made[j].Before(began) && len(read("SELECT k FROM a."+name)) != 1 {
			b.t.Errorf("node %d: table %s lacks its row", i, name)
		}
	}
}

// TestRestoredRowsEqualTheModel backs rings up while clients write and delete rows, count, and change the schema, and
// while a node joins, or a node or the leader is killed. Each backup is restored to a ring of another size, which a
// node joins meanwhile. Each row there is one that it was at a moment while the backup was made.
func TestRestoredRowsEqualTheModel(t *testing.T) {
	tier.Long(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { backUpModel(t, seed) })
	}
}

// backUpModel is one ring, one backup and its restoration.
func backUpModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	store := vfs.NewMem()
	if err := store.MkdirAll("/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	subnet := byte(236 + 2*seed)
	change := func(o *config.Options) {
		o.FS, o.BackupFS = vfs.NewCrashableMem(), store
		o.Background.StreamThroughput = 256 << 10
	}
	size := 2 + random.IntN(2)
	b := &backupModel{inProcess: openNodes(t, subnet, size, change), random: random}
	c := b.connect(0)
	b.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	b.query(c, "CREATE TABLE a.t (k int, c int, v text, data blob, PRIMARY KEY (k, c))")
	b.query(c, "CREATE TABLE a.n (k int PRIMARY KEY, v counter)")
	// All are connected before a node can be killed: a statement that fails is part of the test, a login is not.
	for w := range 4 {
		writing := b.connect(w % size)
		b.wait.Go(func() { b.writer(writing, w, 4) })
	}
	b.eventually("writes", func() bool { return b.writes.Load() > 300 })
	changing := b.connect(1)
	b.wait.Go(func() { b.changeSchema(changing, 8) })
	began := time.Now()
	made := b.completed("file:///mnt", func() {
		switch seed % 4 {
		case 0:
			b.openNode(subnet, change)
		case 1:
			b.killQuietly(0)
		case 2:
			b.killQuietly(1)
		}
	})
	ended := time.Now()
	b.stop.Store(true)
	b.wait.Wait()
	// The moment of the backup is more exact: writes before it are in the backup.
	if made.Created.Before(began) || made.Ended.After(ended) {
		t.Errorf("the backup is from %v to %v, not from %v to %v", made.Created, made.Ended, began, ended)
	}
	other := &backupModel{inProcess: openNodes(t, subnet+1, 1+random.IntN(4), change), random: random}
	restored := make(chan error, 1)
	leader := other.nodes[0]
	other.wait.Go(func() {
		_, err := leader.commands.Backups.Restore(t.Context(), control.RestoreArgs{Location: "file:///mnt"},
			func(control.Progress) {})
		restored <- err
	})
	other.await(leader, "restore", []string{"verifying the backup", "restoring rows"}[random.IntN(2)])
	other.openNode(subnet+1, change)
	other.resume("restore", <-restored)
	for i := range other.nodes {
		other.mustEqualModel(i, made.Created, made.Ended, b)
	}
}
