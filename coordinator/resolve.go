package coordinator

import (
	"bytes"
	"fmt"

	"cqld/ring"
	"cqld/row"
)

// version is one replica's page, taken apart. It shares memory with the page.
type version struct {
	node       ring.NodeID
	partitions []*row.Partition
	more       bool
	bytes      int
}

// parsePage takes a page apart.
func parsePage(node ring.NodeID, page []byte) (*version, error) {
	v := &version{node: node, bytes: len(page)}
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		p := &row.Partition{Key: r.Key, Header: r.Header, RangeTombstones: r.RangeTombstones}
		r.Header, r.RangeTombstones = row.Row{}, nil // the partition has them now
		var x row.Row
		for r.NextRow(&x) {
			p.Rows = append(p.Rows, x)
			x = row.Row{}
		}
		v.partitions = append(v.partitions, p)
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("coordinator: page of node %d: %w", node, err)
	}
	v.more = r.More()
	if v.more && len(v.partitions) == 0 {
		return nil, fmt.Errorf("coordinator: page of node %d says more, but has nothing", node)
	}
	return v, nil
}

// position is a place in the order of a command's rows: behind a row, or behind a whole partition.
type position struct {
	key        row.PartitionKey
	clustering []byte
	whole      bool
}

// end is how far v's answer goes; nil when it is complete. A page that was ended by a limit covers
// its last partition up to the last row; one without rows was counted for its static row, and for
// that the replica had to walk all of it.
func (v *version) end() *position {
	if !v.more {
		return nil
	}
	p := v.partitions[len(v.partitions)-1]
	if len(p.Rows) == 0 {
		return &position{key: p.Key, whole: true}
	}
	return &position{key: p.Key, clustering: p.Rows[len(p.Rows)-1].Clustering}
}

// compare orders positions as the rows of a command come.
func (a *position) compare(b *position, reversed bool) int {
	if c := a.key.Compare(b.key); c != 0 {
		return c
	}
	switch {
	case a.whole && b.whole:
		return 0
	case a.whole:
		return 1
	case b.whole:
		return -1
	case reversed:
		return bytes.Compare(b.clustering, a.clustering)
	}
	return bytes.Compare(a.clustering, b.clustering)
}

// resolver merges replicas' answers to one command, over as many rounds as it takes to meet its
// limit, and says what each replica lacks.
type resolver struct {
	cmd         *row.ReadCommand // as the client asked
	bytesMax    int              // ends the answer
	merged      []*row.Partition
	counted     uint32 // live rows in merged, as limits count
	countedLast uint32 // of them, those of the last partition
	bytes       int    // of the pages that merged is made of, about
	finished    bool   // the limit is met: there may be more
}

// repairs is what one replica lacks of a round's result.
type repairs struct {
	node      ring.NodeID
	mutations []*row.Mutation
}

// round merges one round's answers to asked. It returns what each version lacks, in the order of
// versions, and where the answer stops being complete: nil when the limit is met or there is no more.
func (s *resolver) round(asked *row.ReadCommand, versions []*version, shortRead bool) ([]repairs, *position) {
	lacks := make([]repairs, len(versions))
	var bound *position
	size := 0
	for i, v := range versions {
		size = max(size, v.bytes)
		lacks[i].node = v.node
		if e := v.end(); shortRead && e != nil && (bound == nil || e.compare(bound, asked.Reversed) < 0) {
			bound = e
		}
	}
	s.bytes += size
	at := make([]int, len(versions))
	for !s.finished {
		key, ok := lowestKey(versions, at)
		if !ok || bound != nil && key.Compare(bound.key) > 0 {
			break
		}
		same := make([]*row.Partition, len(versions)) // nil where a version lacks the partition
		for i, v := range versions {
			if at[i] < len(v.partitions) && v.partitions[at[i]].Key.Compare(key) == 0 {
				same[i] = v.partitions[at[i]]
				at[i]++
			}
		}
		if stop := s.partition(asked, same, bound, lacks, shortRead); stop != nil {
			return lacks, s.goOn(stop)
		}
	}
	return lacks, s.goOn(bound)
}

// goOn is where reading goes on, when it would at at: nowhere once a limit, or the size, is met. A
// result that ends inside a partition must show a row of it: that is how a reader knows where it ended.
func (s *resolver) goOn(at *position) *position {
	if at != nil && s.bytes >= s.bytesMax && len(s.merged) > 0 &&
		(at.whole || len(s.merged[len(s.merged)-1].Rows) > 0) {
		s.finished = true
	}
	if s.finished {
		return nil
	}
	return at
}

// lowestKey is the next partition that any version has.
func lowestKey(versions []*version, at []int) (lowest row.PartitionKey, ok bool) {
	for i, v := range versions {
		if at[i] < len(v.partitions) {
			if k := v.partitions[at[i]].Key; !ok || k.Compare(lowest) < 0 {
				lowest, ok = k, true
			}
		}
	}
	return lowest, ok
}

// partition merges the versions of one partition into the result. It returns a position when the
// partition has to be read on from there before the next one can follow.
func (s *resolver) partition(asked *row.ReadCommand, same []*row.Partition, bound *position, lacks []repairs, shortRead bool) *position {
	present := make([]*row.Partition, 0, len(same))
	var local *position // how far all versions cover this partition
	if bound != nil && !bound.whole && bound.key.Compare(keyOf(same)) == 0 {
		local = bound
	}
	for _, p := range same {
		if p == nil {
			continue
		}
		present = append(present, p)
		if n := asked.Limits.PerPartition; shortRead && n > 0 && liveRows(p, asked.Now) >= n {
			e := &position{key: p.Key, clustering: p.Rows[len(p.Rows)-1].Clustering}
			if local == nil || e.compare(local, asked.Reversed) < 0 {
				local = e
			}
		}
	}
	m := row.MergePartitions(present, asked.Reversed)
	if local != nil {
		cutBehind(m, local, asked.Reversed)
	}
	s.add(m, local != nil)
	for i, p := range same {
		if d := difference(asked, m, p); d != nil {
			lacks[i].mutations = append(lacks[i].mutations, d)
		}
	}
	last := s.merged[len(s.merged)-1]
	full := s.cmd.Limits.PerPartition > 0 && liveRows(last, s.cmd.Now) >= s.cmd.Limits.PerPartition
	switch {
	case s.finished || local == nil:
		return nil
	case full:
		return s.afterPartition(bound, last)
	}
	return local
}

// afterPartition is where reading goes on behind a partition that has all it may have: nowhere
// special, except when the round ended inside it.
func (s *resolver) afterPartition(bound *position, p *row.Partition) *position {
	if bound != nil && bound.key.Compare(p.Key) == 0 {
		return &position{key: p.Key, whole: true}
	}
	return nil
}

func keyOf(same []*row.Partition) row.PartitionKey {
	for _, p := range same {
		if p != nil {
			return p.Key
		}
	}
	return row.PartitionKey{}
}

// cutBehind removes the rows behind a position in the partition.
func cutBehind(p *row.Partition, end *position, reversed bool) {
	n := len(p.Rows)
	for n > 0 {
		at := position{key: p.Key, clustering: p.Rows[n-1].Clustering}
		if at.compare(end, reversed) <= 0 {
			break
		}
		n--
	}
	p.Rows = p.Rows[:n]
}

// add appends m to the result, or to its last partition when m goes on with it, and cuts m and the
// result at the limits. Of a part of a partition nobody knows yet whether its static row will be all
// there is, so that does not count.
func (s *resolver) add(m *row.Partition, part bool) {
	last := m
	if n := len(s.merged); n > 0 && s.merged[n-1].Key.Compare(m.Key) == 0 {
		last = row.MergePartitions([]*row.Partition{s.merged[n-1], m}, s.cmd.Reversed)
		s.merged[n-1] = last
		s.counted -= s.countedLast
	} else {
		s.merged = append(s.merged, last)
	}
	allowed := ^uint32(0)
	if n := s.cmd.Limits.PerPartition; n > 0 {
		allowed = n
	}
	if n := s.cmd.Limits.Rows; n > 0 {
		allowed = min(allowed, n-s.counted)
	}
	if cut := cutAt(last, allowed, s.cmd.Now); cut != nil {
		end := position{key: m.Key, clustering: cut}
		cutBehind(m, &end, s.cmd.Reversed)
	}
	if s.countedLast = liveRows(last, s.cmd.Now); !part {
		s.countedLast = countRows(last, s.cmd)
	}
	s.counted += s.countedLast
	s.finished = s.cmd.Limits.Rows > 0 && s.counted >= s.cmd.Limits.Rows
}

// countRows is what p counts for against the limit of cmd.
func countRows(p *row.Partition, cmd *row.ReadCommand) uint32 {
	n := liveRows(p, cmd.Now)
	if n == 0 && cmd.StaticCounts && p.Header.Live(cmd.Now) {
		return 1
	}
	return n
}

func liveRows(p *row.Partition, now int64) (n uint32) {
	for i := range p.Rows {
		if p.Rows[i].Live(now) {
			n++
		}
	}
	return n
}

// cutAt ends p at its live row number allowed; it returns that row's clustering when it was there.
func cutAt(p *row.Partition, allowed uint32, now int64) []byte {
	for i := range p.Rows {
		if !p.Rows[i].Live(now) {
			continue
		}
		if allowed--; allowed == 0 {
			p.Rows = p.Rows[:i+1]
			return p.Rows[i].Clustering
		}
	}
	return nil
}

// page appends the result.
func (s *resolver) page(dst []byte) []byte {
	w := row.NewPageWriter(dst)
	for _, p := range s.merged {
		if len(p.Rows) == 0 && len(p.RangeTombstones) == 0 && p.Header.Empty() {
			continue
		}
		w.Partition(p.Key, &p.Header, p.RangeTombstones)
		for i := range p.Rows {
			w.Row(&p.Rows[i])
		}
		w.EndPartition()
	}
	return w.Finish(s.finished)
}
