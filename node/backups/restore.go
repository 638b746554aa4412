package backups

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"cqld/backup"
	"cqld/node/snapshot"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/block"
	"cqld/storage/export"
	"cqld/storage/rowkey"
)

const (
	// blockBytes is how much of a table is in memory at once.
	blockBytes = 1 << 20
	// ingestBytes is the size from which a file is made part of the table.
	ingestBytes = 16 << 20
)

// restoring is a restoration on one node.
type restoring struct {
	n        *Node
	manifest *backup.Manifest
	at       *moment // nil: the time of the backup
	task     string
	epoch    uint64         // of the ring that is restored to
	former   *ring.Topology // of the backup, or of the moment
	sources  []source       // its nodes
	tables   []restored
	// read and rewritten are the memory of the blocks of rows. A block is used until the next one is read.
	read, rewritten []byte
}

// restored is a table that is restored.
type restored struct {
	from *schema.Table // of the backup
	into *schema.Table // of the cluster
	// edit changes a row of from to one of into; nil if they are the same.
	edit func(*row.Row)
	// count is of the truncations of into when the restoration began. A later one ends it.
	count uint64
	// placed are the replicas of into, and sources the replicas of from in the ring of the backup.
	placed, sources []ring.RangeReplicas
}

// restore adds the rows of this node's ranges to tables: those that each former replica has in the ranges that it
// replicated. Files of a node may also have rows of ranges that it had lost before, which may be deleted elsewhere.
func (n *Node) restore(ctx context.Context, r *Request, progress func(done, total int64)) error {
	s, err := n.o.Open(r.Location)
	if err != nil {
		return err
	}
	x, err := n.plan(ctx, s, r)
	if err != nil {
		return err
	}
	// Repairs of the tables without these rows would allow the purge of deletions among them.
	for _, t := range x.tables {
		if err := n.o.Repaired.Retain(t.into.StorageID, nil); err != nil {
			return err
		}
	}
	var done, total int64
	shares := make([]sharePlan, len(x.sources))
	for i := range shares {
		shares[i] = x.partsOf(i)
		total += shares[i].bytes
	}
	pace := n.pacer(ctx, n.steady)
	for i := range shares {
		err := x.share(ctx, s, &shares[i], pace, func(of int64) { progress(done+of, total) })
		if err != nil {
			return err
		}
		done += shares[i].bytes
	}
	for _, t := range x.tables {
		err = errors.Join(err, n.o.Repaired.Retain(t.into.StorageID, nil))
	}
	return err
}

// plan reads what the backup and the metadata say about the tables. The metadata have the tables: the leader has
// created them on all live nodes.
func (n *Node) plan(ctx context.Context, s *backup.Store, r *Request) (*restoring, error) {
	m, err := manifestOf(ctx, s, r)
	if err != nil {
		return nil, err
	}
	x := &restoring{n: n, manifest: m, epoch: r.Epoch, task: r.Task}
	var then backup.Contents
	members := m.Members
	if r.Step == RestoreMoment {
		if x.at, err = n.momentOf(ctx, s, m, r.At, r.State); err == nil {
			then, members, x.sources = x.at.contents, x.at.members, x.at.sources
		}
	} else {
		then, err = s.Contents(ctx, m)
		x.sources = sourcesOf(m)
	}
	if err != nil {
		return nil, err
	}
	if x.former, err = backup.TopologyOf(members); err != nil {
		return nil, err
	}
	if err := n.settled(ctx, r.Epoch); err != nil {
		return nil, err
	}
	now := n.o.Cluster.Metadata()
	for _, source := range r.Rows {
		from := then.Schema.Table(source.Keyspace, source.Name)
		if from == nil {
			return nil, fmt.Errorf("the backup has no table %s.%s", source.Keyspace, source.Name)
		}
		into := tableByID(now.Schema, source.Into)
		if into == nil {
			return nil, fmt.Errorf("the table for the rows of %s.%s does not exist: it was dropped", source.Keyspace,
				source.Name)
		}
		columns, err := snapshot.MapColumns(snapshot.ColumnsOf(from), snapshot.ColumnsOf(into))
		if err != nil {
			return nil, fmt.Errorf("table %s.%s: %w", source.Keyspace, source.Name, err)
		}
		t := restored{from: from, into: into, count: n.o.Truncations.Count(into.StorageID),
			placed:  now.Topology.Placement(into.Replication).Ranges(ring.FullRange()),
			sources: x.former.Placement(from.Replication).Ranges(ring.FullRange())}
		// Rows may have cells of dropped columns, whose numbers the new table has given to no column or to another.
		switch {
		case from.IsCounter():
			t.edit = func(row *row.Row) { columns.Apply(row); renameShards(m, row) }
		case len(from.Dropped) > 0 || !columns.Identical():
			t.edit = columns.Apply
		}
		x.tables = append(x.tables, t)
	}
	return x, nil
}

// tableByID returns the table with an identifier, or nil. Names would be ambiguous: the table may have been dropped and
// created since the leader has planned.
func tableByID(s *schema.Schema, id schema.UUID) *schema.Table {
	for _, storage := range s.StorageIDs() {
		if t := s.TableByStorage(storage); t.ID == id && t.Retention == nil {
			return t
		}
	}
	return nil
}

// renameShards gives the shards of counters paths that no node has. A node that leads updates writes its own shard, and
// must find only what it has written: a node of the ring may have the number of a former one.
func renameShards(m *backup.Manifest, r *row.Row) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if len(c.Path) != shardBytes {
			continue
		}
		sum := sha256.Sum256(append([]byte(m.ClusterID+"\x00"+m.Name+"\x00"), c.Path...))
		path := sum[:shardBytes:shardBytes]
		path[0] |= 0x80 // numbers of nodes are small
		c.Path = path
	}
	r.Sort()
}

// shardBytes is the length of the path of a shard (package counters/shard).
const shardBytes = 8

// part is a range of a table whose rows a node reads from a share.
type part struct {
	table  *restored
	tokens ring.Range
}

// sharePlan says what a node reads from a former node. bytes is an estimate, from the size of the files.
type sharePlan struct {
	of    *source
	parts []part
	bytes int64
}

// partsOf returns what this node reads from a former node: for each table, the ranges that the former node replicated
// and this one replicates.
func (x *restoring) partsOf(index int) sharePlan {
	p := sharePlan{of: &x.sources[index]}
	// A node may have another number, or be another node, than when the backup was made: only its ranges matter.
	self := x.n.o.Cluster.Self()
	var own, all float64 // parts of the ring, summed over the tables
	for i := range x.tables {
		t := &x.tables[i]
		for _, was := range t.sources {
			if !was.Replicas.Contains(p.of.node) {
				continue
			}
			all += was.Range.Share()
			for _, now := range t.placed {
				if !now.Replicas.Contains(self) {
					continue
				}
				for _, both := range intersect(now.Range, was.Range) {
					p.parts = append(p.parts, part{t, both})
					own += both.Share()
				}
			}
		}
	}
	// Rows are distributed evenly over tokens, more or less.
	if all > 0 {
		p.bytes = int64(float64(p.of.bytes()) * min(own/all, 1))
	}
	return p
}

// share adds the rows of one node's files: those that the node replicated and that this node replicates now. progress
// gets the bytes of the share that are done.
func (x *restoring) share(ctx context.Context, s *backup.Store, p *sharePlan, pace func(int) error,
	progress func(int64)) (err error) {
	// Opening the files reads some of them.
	if len(p.parts) == 0 {
		return nil
	}
	defer s.Memory().Charge(backup.RestoreMemory)()
	c, end, err := x.open(ctx, s, p, pace)
	if err != nil {
		return fmt.Errorf("open the files of node %s in backup %s: %w", p.of.host, x.manifest.Name, err)
	}
	defer func() { err = errors.Join(err, c.Close(), end()) }()
	for i, part := range p.parts {
		t := part.table
		// A part may be all of a large table.
		within := func(done float64) {
			progress(int64(float64(p.bytes) * (float64(i) + done) / float64(len(p.parts))))
		}
		if err := x.rows(ctx, c, t, part.tokens, within); err != nil {
			return fmt.Errorf("restore %s.%s from the files of node %s: %w", t.from.Keyspace, t.from.Name,
				p.of.host, err)
		}
		within(1)
	}
	return nil
}

// open opens the state of a former node. The caller closes it, and then calls end.
func (x *restoring) open(ctx context.Context, s *backup.Store, p *sharePlan, pace func(int) error) (
	c *export.Checkpoint, end func() error, err error) {
	if x.at != nil {
		return x.n.openMoment(ctx, s, x.manifest, x.at, p.of, x.task, pace)
	}
	files := backup.NewFiles(ctx, s, p.of.share, pace)
	if c, err = export.Open(files, backup.FilesDir, x.n.o.Log); err != nil {
		files.Close()
	}
	return c, func() error { files.Close(); return nil }, err
}

// intersect returns the ranges of tokens that are in both.
func intersect(a, b ring.Range) (out []ring.Range) {
	for _, p := range a.Unwrap() {
		for _, q := range b.Unwrap() {
			// The end of an unwrapped range that reaches the end of the ring is the smallest token.
			r := ring.Range{Start: max(p.Start, q.Start), End: p.End}
			if p.End == ring.MinToken || q.End != ring.MinToken && q.End < p.End {
				r.End = q.End
			}
			if r.End == ring.MinToken || r.Start < r.End {
				out = append(out, r)
			}
		}
	}
	return out
}

// rows adds the rows of a range, in files of about ingestBytes. A file becomes part of the table as a whole, and in the
// order of tokens. After an error, the rows of complete files stay: the next attempt adds them again without effect.
// progress gets the part of the range that is done, from 0 to 1.
func (x *restoring) rows(ctx context.Context, c *export.Checkpoint, t *restored, r ring.Range,
	progress func(float64)) error {
	var file *storage.Ingestion
	defer func() {
		if file != nil {
			file.Abort()
		}
	}()
	var after []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		read, next, err := c.Append(x.read[:0], &export.Query{Table: t.from.StorageID, Tokens: r, After: after,
			BytesMax: blockBytes})
		if x.read = read; err != nil {
			return err
		}
		// Tombstones are restored as well: another former replica may have what they delete.
		rewritten, err := block.Rewrite(x.rewritten[:0], read, t.into.StorageID, t.edit)
		if err != nil {
			return err
		}
		x.rewritten = rewritten
		// Most ranges of a small table are empty.
		if len(rewritten) > 0 {
			if file == nil {
				file = x.n.o.Engine.NewIngestion(t.into.StorageID, r)
				file.MarkForeign()
			}
			if err := file.Add(rewritten); err != nil {
				return err
			}
		}
		if file != nil && (next == nil || file.Size() >= ingestBytes) {
			complete := file
			file = nil // commit ends it
			if err := x.commit(t, complete); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		after = next
		progress(ring.Range{Start: r.Start, End: rowkey.TokenOf(next, r.Start)}.Share() / r.Share())
	}
}

// commit makes the rows of a file rows of the table, unless the table was truncated or the ring has changed.
func (x *restoring) commit(t *restored, file *storage.Ingestion) error {
	if x.n.o.Cluster.Metadata().Topology.Moved() != x.epoch {
		file.Abort()
		return errRingChanged
	}
	// TRUNCATE may have retained the rows so far (schema.TruncateTable).
	if now := x.n.o.Cluster.Metadata().Schema.TableByStorage(t.into.StorageID); now == nil || now.Retention != nil {
		file.Abort()
		return fmt.Errorf("table %s.%s was dropped or truncated meanwhile", t.into.Keyspace, t.into.Name)
	}
	valid, err := x.n.o.Truncations.Commit(t.into.StorageID, t.count, file.Commit)
	if !valid {
		file.Abort()
		return fmt.Errorf("table %s.%s was truncated meanwhile", t.into.Keyspace, t.into.Name)
	}
	// Also after an error, because the file may have been ingested.
	x.n.o.Changed(t.into.StorageID)
	// A stream to a new replica may have read the range before the rows were there.
	if err == nil && x.n.o.Cluster.Metadata().Topology.Moved() != x.epoch {
		err = errRingChanged
	}
	return err
}
