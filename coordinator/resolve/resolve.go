package resolve

import (
	"bytes"
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/row"
)

// Version is one replica's decoded page. It shares memory with the page.
//
// Round does not modify it.
type Version struct {
	node       ring.NodeID
	partitions []*Partition
	// more means that a limit ended the page, so that the replica may have further rows.
	more  bool
	at    *Position // where the page ends, if not after its last row
	bytes int
}

// Parse reads a page, whose rows it does not decode. It fails with NeedsMemory if the page has too many rows.
func (s *Resolver) Parse(node ring.NodeID, page []byte) (*Version, error) {
	n := row.ContentsOf(page)
	// ContentsOf has counted without decoding, so memory is reserved before anything is allocated for the rows.
	if !s.reservePage(n) {
		return nil, s.err
	}
	if s.stream == nil {
		s.stream = new(row.Streamer)
	}
	v := &Version{node: node, bytes: len(page), partitions: make([]*Partition, 0, n.Partitions)}
	// Allocated once for the page. The elements are referred to by pointers and slices, so they must not move.
	partitions, rows := make([]Partition, 0, n.Partitions), make([]Row, 0, n.Rows)
	var r row.PageReader
	r.Encoded = true
	r.Reset(page)
	for r.NextPartition() {
		from := len(rows)
		for {
			clustering, encoded, ok := r.NextEncoded()
			if !ok {
				break
			}
			x := Row{clustering: clustering, encoded: encoded}
			if s.inspect(&x); s.err != nil {
				return nil, fmt.Errorf("resolve: page of node %d: %w", node, s.err)
			}
			rows = append(rows, x)
		}
		partitions = append(partitions, Partition{Key: r.Key, header: Row{encoded: r.HeaderBytes},
			RangeTombstones: r.RangeTombstones, Rows: rows[from:len(rows):len(rows)]})
		r.RangeTombstones = nil // the partition owns them now
		p := &partitions[len(partitions)-1]
		if s.inspectHeader(p); s.err != nil {
			return nil, fmt.Errorf("resolve: page of node %d: %w", node, s.err)
		}
		v.partitions = append(v.partitions, p)
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("resolve: page of node %d: %w", node, err)
	}
	v.more = r.More()
	v.at = (*Position)(r.End())
	// A page that reports more rows but has no position to continue from would be requested forever.
	if v.more && v.at == nil && len(v.partitions) == 0 {
		return nil, fmt.Errorf("resolve: page of node %d says more, but has nothing", node)
	}
	return v, nil
}

// Position is a position in the order of a command's rows: after a row, or after a whole partition.
type Position struct {
	Key        row.PartitionKey
	Clustering []byte
	// Whole means after all rows of the partition; Clustering is not used then.
	Whole bool
}

// end returns how far v's answer extends; nil means that it is complete. A page that a limit ended covers its last
// partition up to the last row. One without rows was counted for its static row, for which the replica had to read the
// whole partition.
func (v *Version) end() *Position {
	if !v.more || v.at != nil {
		return v.at
	}
	p := v.partitions[len(v.partitions)-1]
	if len(p.Rows) == 0 {
		return &Position{Key: p.Key, Whole: true}
	}
	return &Position{Key: p.Key, Clustering: p.Rows[len(p.Rows)-1].clustering}
}

// compare orders positions in the order of a command's rows.
func (a *Position) compare(b *Position, reversed bool) int {
	if c := a.Key.Compare(b.Key); c != 0 {
		return c
	}
	// In one partition, Whole is after all rows in either direction.
	switch {
	case a.Whole && b.Whole:
		return 0
	case a.Whole:
		return 1
	case b.Whole:
		return -1
	case reversed:
		return bytes.Compare(b.Clustering, a.Clustering)
	}
	return bytes.Compare(a.Clustering, b.Clustering)
}

// Resolver merges replicas' answers to one command, over as many rounds as are needed to meet its limit, and determines
// what each replica lacks.
type Resolver struct {
	cmd      *row.ReadCommand // the client's command
	bytesMax int              // size at which the answer ends
	// merged is the result of all rounds, in the order of the command.
	merged      []*Partition
	counted     uint32 // live rows in merged, as limits count them
	countedLast uint32 // those of them in the last partition
	bytes       int    // approximate size of the pages from which merged was made
	finished    bool   // the limit is met: there may be more rows
	// endsAt is the position at which the result of a filtered read ends, or nil if that is its last row.
	endsAt *Position

	stream  *row.Streamer // since the first Parse
	scratch []byte        // of stream
	chunk   []byte        // of keep
	most    int           // bound of used; 0 if there is none
	used    int           // memory of the pages and of the merge
	pages   int           // of it, the pages
	err     error
}

// New returns the resolver of a client's command. The answer ends at about bytesMax.
func New(cmd *row.ReadCommand, bytesMax int) Resolver { return Resolver{cmd: cmd, bytesMax: bytesMax} }

// Finished reports that the limit, or the size, is met: there may be more rows.
func (s *Resolver) Finished() bool { return s.finished }

// Merged returns the present result.
func (s *Resolver) Merged() []*Partition { return s.merged }

// Repairs contains what one replica lacks of a round's result.
type Repairs struct {
	Node      ring.NodeID
	Mutations []*row.Mutation
}

// Round merges one round's answers to asked. It returns what each version lacks, in the order of versions, and the
// position at which the answer stops being complete: nil means that the limit is met or that there are no more rows.
func (s *Resolver) Round(asked *row.ReadCommand, versions []*Version) ([]Repairs, *Position) {
	lacks := make([]Repairs, len(versions))
	var bound *Position
	size := 0
	for i, v := range versions {
		// The answer is about as large as the largest page.
		size = max(size, v.bytes)
		lacks[i].Node = v.node
		// The answer is complete up to the first end of a version: after it, a version may lack rows only because a
		// limit ended its page.
		if e := v.end(); e != nil && (bound == nil || e.compare(bound, asked.Reversed) < 0) {
			bound = e
		}
	}
	s.bytes += size
	at := make([]int, len(versions))
	for !s.finished && s.err == nil {
		// A merge by key: each version has its partitions in the order of tokens and keys.
		key, ok := lowestKey(versions, at)
		// Partitions after the bound are read again by the next round.
		if !ok || bound != nil && key.Compare(bound.Key) > 0 {
			break
		}
		same := make([]*Partition, len(versions)) // nil where a version lacks the partition
		for i, v := range versions {
			if at[i] < len(v.partitions) && v.partitions[at[i]].Key.Compare(key) == 0 {
				same[i] = v.partitions[at[i]]
				at[i]++
			}
		}
		if stop := s.partition(asked, same, bound, lacks); stop != nil {
			return lacks, s.goOn(stop)
		}
	}
	return lacks, s.goOn(bound)
}

// goOn returns where reading continues, given the candidate at: nil once a limit, or the size, is met. A result that
// ends inside a partition must contain a row of it, from which the reader learns where it ended.
//
// A filtered read ends after one round at the position up to which all versions are complete, even if the round found
// nothing: its versions can contain few rows of many, and the client's request continues from there.
func (s *Resolver) goOn(at *Position) *Position {
	if at != nil && !s.finished && s.cmd.Filter != nil {
		s.finished, s.endsAt = true, at
		return nil
	}
	// A result that must grow by another round would exceed the size of a page.
	if at != nil && s.bytes >= s.bytesMax && len(s.merged) > 0 &&
		(at.Whole || len(s.merged[len(s.merged)-1].Rows) > 0) {
		s.finished = true
	}
	if s.finished {
		return nil
	}
	return at
}

// lowestKey returns the next partition in any version.
func lowestKey(versions []*Version, at []int) (lowest row.PartitionKey, ok bool) {
	for i, v := range versions {
		if at[i] < len(v.partitions) {
			if k := v.partitions[at[i]].Key; !ok || k.Compare(lowest) < 0 {
				lowest, ok = k, true
			}
		}
	}
	return lowest, ok
}

// partition merges the versions of one partition into the result. If a version ended inside the partition, it returns
// the position from which the partition must be read before the next partition can follow.
func (s *Resolver) partition(asked *row.ReadCommand, same []*Partition, bound *Position, lacks []Repairs) *Position {
	present := make([]*Partition, 0, len(same))
	var local *Position // how far all versions cover this partition
	if bound != nil && !bound.Whole && bound.Key.Compare(keyOf(same)) == 0 {
		local = bound
	}
	for _, p := range same {
		if p == nil {
			continue
		}
		present = append(present, p)
		// The limit of the partition ended this version, although its page continues with the next partition.
		if n := asked.Limits.PerPartition; n > 0 && liveRows(p) >= n {
			e := &Position{Key: p.Key, Clustering: p.Rows[len(p.Rows)-1].clustering}
			if local == nil || e.compare(local, asked.Reversed) < 0 {
				local = e
			}
		}
	}
	m := s.mergePartitions(present)
	// Rows after local may be incomplete. They are cut off, so that the differences below only repair rows that all
	// versions cover.
	if local != nil {
		cutBehind(m, local, asked.Reversed)
	}
	s.add(m, local != nil)
	// p is nil for a version without the partition, which then lacks everything.
	for i, p := range same {
		if d := s.Difference(asked, m, p); d != nil {
			lacks[i].Mutations = append(lacks[i].Mutations, d)
		}
	}
	last := s.merged[len(s.merged)-1]
	// The client's limit, which add has applied, not the limit of the round.
	full := s.cmd.Limits.PerPartition > 0 && liveRows(last) >= s.cmd.Limits.PerPartition
	switch {
	case s.finished || local == nil:
		return nil
	case full:
		return s.afterPartition(bound, last)
	}
	return local
}

// afterPartition returns where reading continues after a complete partition: nil, unless the round ended inside it.
func (s *Resolver) afterPartition(bound *Position, p *Partition) *Position {
	if bound != nil && bound.Key.Compare(p.Key) == 0 {
		return &Position{Key: p.Key, Whole: true}
	}
	return nil
}

// keyOf returns the key of a partition from the first version that has it.
func keyOf(same []*Partition) row.PartitionKey {
	for _, p := range same {
		if p != nil {
			return p.Key
		}
	}
	return row.PartitionKey{}
}

// cutBehind removes the rows after a position in the partition.
func cutBehind(p *Partition, end *Position, reversed bool) {
	n := len(p.Rows)
	for n > 0 {
		at := Position{Key: p.Key, Clustering: p.Rows[n-1].clustering}
		if at.compare(end, reversed) <= 0 {
			break
		}
		n--
	}
	p.Rows = p.Rows[:n]
}

// add appends m to the result, or to its last partition if m continues it, and truncates m and the result at the
// limits. For a part of a partition it is not known yet whether the static row will be its only content, so the static
// row does not count.
func (s *Resolver) add(m *Partition, part bool) {
	last := m
	if n := len(s.merged); n > 0 && s.merged[n-1].Key.Compare(m.Key) == 0 {
		// The parts have different rows, but each may contain the header and range tombstones.
		last = s.mergePartitions([]*Partition{s.merged[n-1], m})
		s.merged[n-1] = last
		s.counted -= s.countedLast
	} else {
		s.merged = append(s.merged, last)
	}
	// Without a limit, allowed is a number that no row reaches.
	allowed := ^uint32(0)
	if n := s.cmd.Limits.PerPartition; n > 0 {
		allowed = n
	}
	if n := s.cmd.Limits.Rows; n > 0 {
		allowed = min(allowed, n-s.counted)
	}
	// m may be a part of last: Difference must not repair rows that the answer does not contain.
	if cut := cutAt(last, allowed); cut != nil {
		end := Position{Key: m.Key, Clustering: cut}
		cutBehind(m, &end, s.cmd.Reversed)
	}
	if s.countedLast = liveRows(last); !part {
		s.countedLast = CountRows(s.countedLast, last.header.live, s.cmd)
	}
	s.counted += s.countedLast
	s.finished = s.cmd.Limits.Rows > 0 && s.counted >= s.cmd.Limits.Rows
}

// CountRows returns the number of rows that a partition with live rows, and perhaps a live static row, counts for the
// limit of cmd.
func CountRows(live uint32, header bool, cmd *row.ReadCommand) uint32 {
	if live == 0 && cmd.StaticCounts && header {
		return 1
	}
	return live
}

// liveRows returns the number of rows that count for limits.
func liveRows(p *Partition) (n uint32) {
	for i := range p.Rows {
		if p.Rows[i].live {
			n++
		}
	}
	return n
}

// cutAt ends p at its live row number allowed; it returns that row's clustering if the row exists.
func cutAt(p *Partition, allowed uint32) []byte {
	for i := range p.Rows {
		if !p.Rows[i].live {
			continue
		}
		if allowed--; allowed == 0 {
			p.Rows = p.Rows[:i+1]
			return p.Rows[i].clustering
		}
	}
	return nil
}

// AppendPage appends the result. It fails with NeedsMemory.
func (s *Resolver) AppendPage(dst []byte) ([]byte, error) {
	// The page is built in one piece, so its size is known before it is allocated.
	size := headBytes
	if s.endsAt != nil {
		size += row.EncodedRowLen(s.endsAt.Clustering, s.endsAt.Key.Bytes)
	}
	for _, p := range s.merged {
		size += partitionBytes + len(p.Key.Bytes) + len(p.header.encoded) + len(p.RangeTombstones)*tombstoneBytes
		for i := range p.Rows {
			size += row.EncodedRowLen(p.Rows[i].clustering, p.Rows[i].encoded)
		}
	}
	if !s.reserve(resultCopies * size) {
		return dst, s.err
	}
	w := row.NewPageWriter(slices.Grow(dst, size))
	for _, p := range s.merged {
		// Everything in it was deleted and purged, or cut.
		if len(p.Rows) == 0 && len(p.RangeTombstones) == 0 && p.bare {
			continue
		}
		w.EncodedPartition(p.Key, p.header.encoded, p.RangeTombstones)
		for i := range p.Rows {
			w.EncodedRow(p.Rows[i].clustering, p.Rows[i].encoded)
		}
		w.EndPartition()
	}
	if s.endsAt != nil {
		return w.FinishAfter((*row.Position)(s.endsAt)), nil
	}
	return w.Finish(s.finished), nil
}
