package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cqld/backup"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/export"
	"cqld/storage/logarchive"
)

// moment is what a restoration to a moment needs besides a backup. It is computed by the leader and by each node, from
// the same names in the store: an archive only grows, and a node that finds another one would miss a segment that it
// reads. It contains no segments, which are read one after the other.
type moment struct {
	at int64 // hybrid time in microseconds
	// state is the hash of contents in the store.
	state    string
	contents backup.Contents
	// members are the ring at the moment, and sources its nodes in the same order. changed means that the ring has
	// changed since the backup.
	members []backup.Member
	sources []source
	changed bool
}

// source is a former node whose rows are restored.
type source struct {
	node ring.NodeID
	host string
	// share has its files in the backup; nil if it was no member then.
	share *backup.Share
	// from is where its log begins, and way leads from there to the moment. Both are zero without a moment.
	from backup.LogFrom
	way  backup.Way
}

// sourcesOf returns the nodes of a backup.
func sourcesOf(m *backup.Manifest) (out []source) {
	for i := range m.Shares {
		s := &m.Shares[i]
		out = append(out, source{node: s.Node, host: s.Host, share: s})
	}
	return out
}

// bytes returns the size of the files in the backup and of the segments, as stored.
func (s *source) bytes() (total int64) {
	if s.share != nil {
		total = s.share.Bytes()
	}
	for _, g := range s.way.Segments {
		total += g.Size
	}
	return total
}

// momentOf returns what leads from a backup to a moment. state is the hash of the state that the leader has found, or
// empty for the leader.
func (n *Node) momentOf(ctx context.Context, s *backup.Store, m *backup.Manifest, at int64, state string) (*moment,
	error) {
	// All nodes use the state that the leader has found, as they use its names of tables.
	t, err := s.Logs().MomentState(ctx, m, at, state)
	if err != nil {
		return nil, fmt.Errorf("moment %s after backup %s: %w", backup.Moment(at), m.Name, err)
	}
	x := &moment{at: at, state: t.Hash, members: t.Members, changed: t.Changed}
	if x.contents, err = t.Contents(); err != nil {
		return nil, fmt.Errorf("the schema at %s cannot be read: %w", backup.Moment(at), err)
	}
	// A backup of some tables restores no roles, also at another moment.
	if m.Roles == nil {
		x.contents.Roles = nil
	}
	starts, err := n.logStarts(ctx, s, m)
	if err != nil {
		return nil, err
	}
	// All members at the moment: each may have the only copy of a write at ONE. Nodes that have left handed over what
	// they had, and the logs of others have it.
	for _, member := range t.Members {
		of := source{node: member.ID, host: member.Host}
		if i := m.ShareOf(member.Host); i >= 0 {
			of.share = &m.Shares[i]
		}
		if of.from, err = s.Logs().From(ctx, m, starts, member.Host); err == nil {
			of.way, err = s.Logs().Way(ctx, backup.LogOwner{Cluster: m.ClusterID, Host: member.Host}, of.from, at)
		}
		if err != nil {
			return nil, fmt.Errorf("moment %s cannot be restored from backup %s: %w", backup.Moment(at), m.Name, err)
		}
		x.sources = append(x.sources, of)
	}
	return x, nil
}

// logStarts returns where the logs begin that follow a backup, in the order of its shares.
func (n *Node) logStarts(ctx context.Context, s *backup.Store, m *backup.Manifest) (out []backup.LogFrom, err error) {
	for i := range m.Shares {
		share := &m.Shares[i]
		files := backup.NewFiles(ctx, s, share, n.pacer(ctx, n.steady))
		log, err := export.LogStart(files, backup.FilesDir)
		files.Close()
		if err != nil {
			return nil, fmt.Errorf("read the files of node %s in backup %s: %w", share.Host, m.Name, err)
		}
		out = append(out, backup.LogFrom{Log: log, Time: m.HybridTime})
	}
	return out, nil
}

// Moments returns the hybrid time until which moments after a backup can be restored, or an error that says why there
// are none.
func (n *Node) Moments(ctx context.Context, s *backup.Store, m *backup.Manifest) (until int64, err error) {
	starts, err := n.logStarts(ctx, s, m)
	if err != nil {
		return 0, err
	}
	return s.Logs().Moments(ctx, m, starts)
}

// bytes returns the size of the segments, as stored.
func (x *moment) bytes() (total int64) {
	for _, of := range x.sources {
		for _, g := range of.way.Segments {
			total += g.Size
		}
	}
	return total
}

// baseOf returns the name of the newest complete backup that ended before a moment, of a cluster that archives its
// logs.
func (n *Node) baseOf(ctx context.Context, s *backup.Store, at int64) (name string, err error) {
	all, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	clusters, err := s.Logs().Clusters(ctx)
	if err != nil {
		return "", err
	}
	// The list is ordered by time, so the last one is the newest. The flags determine the error.
	complete, archived := false, false
	for _, l := range all {
		if l.Manifest == nil || !l.Deleted.IsZero() {
			continue
		}
		complete = true
		if !slices.Contains(clusters, l.Manifest.ClusterID) {
			continue
		}
		archived = true
		if l.Manifest.Ended.UnixMicro() < at {
			name = l.Name
		}
	}
	switch {
	case name != "":
		return name, nil
	case !complete:
		return "", backup.ErrNoBackup
	case !archived:
		return "", errors.New("the cluster of these backups has archived no log at this location: set backup_log of " +
			"all nodes to the location, and make a backup")
	}
	return "", fmt.Errorf("no backup was completed before %s: choose a moment after the end of the first one",
		backup.Moment(at))
}

// checkMoment refuses moments for which nothing can be archived yet, and backups that were made after the moment.
func (n *Node) checkMoment(m *backup.Manifest, at int64) error {
	if now := n.o.Clock.Now(); at > now.UnixMicro() {
		return fmt.Errorf("the moment %s is in the future: it is %s now", backup.Moment(at),
			now.UTC().Format(backup.MomentFormat))
	}
	if at <= m.Ended.UnixMicro() {
		return fmt.Errorf("backup %s was completed at %s, after the moment: use an earlier backup, or a later moment",
			m.Name, m.Ended.UTC().Format(backup.MomentFormat))
	}
	return nil
}

// momentTables returns the tables at a moment whose rows a backup and the logs contain, in the order of their numbers:
// those that the backup contains, and those that were created after it in what it is of.
func momentTables(m *backup.Manifest, base, then *schema.Schema) (out []*schema.Table, lacking map[string]bool,
	err error) {
	// What the scope names may have been dropped since.
	contained, err := backup.Tables(base, m.Scope)
	if err != nil {
		return nil, nil, err
	}
	in := map[schema.StorageID]bool{}
	for _, t := range contained {
		in[t.StorageID] = true
	}
	all, err := backup.Tables(then, nil)
	lacking = map[string]bool{}
	for _, t := range all {
		name := t.Keyspace + "." + t.Name
		of := len(m.Scope) == 0 || slices.Contains(m.Scope, t.Keyspace) || slices.Contains(m.Scope, name)
		switch before := base.TableByStorage(t.StorageID); {
		case of && (before == nil || in[t.StorageID]):
			out = append(out, t)
		case of:
			// It was dropped when the backup was made, and was restored with UNDROP since.
			lacking[name] = true
		}
	}
	return out, lacking, err
}

// scan reads a part of the segments of a moment and compares their checksums. It refuses tables that got rows from
// outside of the ring between the backup and the moment: such rows are not in the logs. own says which segments this
// node reads, by their numbers over all former nodes; tables are the numbers of the tables at the moment.
func (n *Node) scan(ctx context.Context, s *backup.Store, m *backup.Manifest, x *moment, tables []schema.StorageID,
	own func(i int) bool) error {
	// Segments are counted over all nodes, so that the work is divided evenly.
	pace, i := n.pacer(ctx, n.steady), 0
	for _, of := range x.sources {
		owner := backup.LogOwner{Cluster: m.ClusterID, Host: of.host}
		for _, stored := range of.way.Segments {
			if i++; !own(i - 1) {
				continue
			}
			err := s.Logs().ReadSegment(ctx, owner, stored, pace, func(data []byte) error {
				return x.scanSegment(owner.Host, data, m.HybridTime, tables)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// scanSegment reads the records of a segment, which also finds what no checksum finds: segments of a faulty node. It
// refuses rows from outside of the ring that the tables got after the hybrid time from.
func (x *moment) scanSegment(host string, data []byte, from int64, tables []schema.StorageID) error {
	g, err := logarchive.ReadHeader(data)
	if err != nil {
		return fmt.Errorf("a segment of the log of node %s: %w", host, err)
	}
	if x.changed && !g.Ingested {
		return fmt.Errorf("the log of node %s: %w", host, backup.ErrRingMoved)
	}
	for r, err := range g.Records() {
		if err != nil {
			return fmt.Errorf("a segment of the log of node %s: %w", host, err)
		}
		foreign := r.Foreign != 0 && r.Stamp > from && r.Stamp <= x.at
		if foreign && slices.Contains(tables, r.Foreign) {
			return x.foreign(r.Foreign, r.Stamp)
		}
	}
	return nil
}

// foreign returns the error for a table that got rows which are not in the logs.
func (x *moment) foreign(table schema.StorageID, at int64) error {
	name := fmt.Sprint(table)
	if t := x.contents.Schema.TableByStorage(table); t != nil {
		name = t.Keyspace + "." + t.Name
	}
	return fmt.Errorf("rows of table %s were imported or restored at %s, after the backup, and are not in the "+
		"archived log: only moments before that, or after a later backup, can be restored; name other tables with "+
		"--table", name, backup.Moment(at))
}

// openMoment opens the state of a former node at the moment. The caller calls end after it has closed the state, which
// removes what the state has written to the disk.
func (n *Node) openMoment(ctx context.Context, s *backup.Store, m *backup.Manifest, x *moment, of *source,
	task string, pace func(int) error) (c *export.Checkpoint, end func() error, err error) {
	owner := backup.LogOwner{Cluster: m.ClusterID, Host: of.host}
	// In the directory of the task, which is removed with it, on the disk whose files are encrypted if the node's are.
	dir := n.o.Disk.PathJoin(n.directory(task), "moment-"+of.host)
	// An earlier attempt of the process may have left files.
	if err := errors.Join(n.o.Disk.RemoveAll(dir), n.o.Disk.MkdirAll(dir, 0o700)); err != nil {
		return nil, nil, err
	}
	flush, needs := s.Memory().Replay()
	o := export.PointInTime{BaseDir: backup.FilesDir, Beginning: logarchive.Position(of.from.Beginning),
		Scratch: n.o.Disk, ScratchDir: dir, At: x.at, FlushBytes: int(flush), Log: n.o.Log}
	closeFiles, uncharge := func() {}, s.Memory().Charge(needs)
	if of.share != nil {
		files := backup.NewFiles(ctx, s, of.share, pace)
		o.Base, closeFiles = files, files.Close
	}
	end = func() error {
		closeFiles()
		uncharge()
		return n.o.Disk.RemoveAll(dir)
	}
	// One segment is in memory at a time.
	ended := errors.New("no more segments are needed")
	o.Segments = func(yield func([]byte, error) bool) {
		for _, g := range of.way.Segments {
			err := s.Logs().ReadSegment(ctx, owner, g, pace, func(data []byte) error {
				if !yield(data, nil) {
					return ended
				}
				return nil
			})
			if errors.Is(err, ended) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		if idle := of.way.Idle; idle != nil {
			yield(idle, nil)
		}
	}
	if c, err = export.OpenAt(ctx, &o); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return c, end, nil
}
