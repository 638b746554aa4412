package history

import (
	"fmt"

	"cqld/row"
)

// Element is the history of one row that is added once, and deleted at most once.
type Element struct {
	Key        row.PartitionKey
	Clustering string
	AddCall    int64
	// Added is 0 until the addition was acknowledged, and DeleteCall until a deletion was sent.
	Added      int64
	DeleteCall int64 // 0 until a deletion was sent
	Deleted    int64
	// AddSkipped means that the element certainly was not added.
	AddSkipped bool
}

// Set is the history of rows in several partitions. A read must return every row that was acknowledged before the read
// began and that it covers, and none that was deleted.
type Set struct {
	Elements []*Element
	// rows contains the elements by partition and clustering.
	rows map[string]*Element
}

// Add adds an element. It returns false if the set contains its row.
func (s *Set) Add(e *Element) bool {
	id := string(e.Key.Bytes) + "/" + e.Clustering
	if s.rows[id] != nil {
		return false
	}
	if s.rows == nil {
		s.rows = map[string]*Element{}
	}
	s.rows[id] = e
	s.Elements = append(s.Elements, e)
	return true
}

// Check checks a page that a command returned between two times: every row in it may exist, and every row that must
// exist is in it, up to the end of the page. It returns the violations.
func (s *Set) Check(cmd *row.ReadCommand, page []byte, call, returned int64) (violations []string) {
	seen := map[*Element]bool{}
	var p row.PageReader
	p.Reset(page)
	var last *Element
	for p.NextPartition() {
		var r row.Row
		for p.NextRow(&r) {
			e := s.rows[string(p.Key.Bytes)+"/"+string(r.Clustering)]
			if e == nil {
				return append(violations, fmt.Sprintf("a row that was never written: %q/%q", p.Key.Bytes, r.Clustering))
			}
			// Deleted rows are included: the page covers all rows up to the last one in it.
			last = e
			if !r.Live(cmd.Now) {
				continue
			}
			seen[e] = true
			// A read may return a row whose addition or deletion is in progress.
			if e.AddCall > returned || e.AddSkipped || e.Deleted != 0 && e.Deleted < call {
				violations = append(violations, fmt.Sprintf("row %s/%s should not be there: %v, read from %d to %d",
					p.Key.Bytes, r.Clustering, e, call, returned))
			}
		}
	}
	if err := p.Err(); err != nil {
		return append(violations, fmt.Sprintf("a page that cannot be read: %v", err))
	}
	for _, e := range s.Elements {
		// The element is in another partition, or on a later page.
		if cmd.SinglePartition() && e.Key.Compare(cmd.Key) != 0 || p.More() && !covered(cmd, e, last) {
			continue
		}
		if !seen[e] && e.Added != 0 && e.Added < call && (e.DeleteCall == 0 || e.DeleteCall > returned) {
			violations = append(violations, fmt.Sprintf("row %s/%s is missing: %v, read from %d to %d: %+v",
				e.Key.Bytes, e.Clustering, e, call, returned, *cmd))
		}
	}
	return violations
}

// String describes the times of an element.
func (e *Element) String() string {
	return fmt.Sprintf("add called %d, acknowledged %d, refused %v; delete called %d, acknowledged %d", e.AddCall,
		e.Added, e.AddSkipped, e.DeleteCall, e.Deleted)
}

// covered reports whether e is not after last in the order of cmd.
func covered(cmd *row.ReadCommand, e, last *Element) bool {
	if last == nil {
		return false
	}
	// Only the rows of a partition are reversed, never the order of partitions.
	if c := e.Key.Compare(last.Key); c != 0 {
		return c < 0
	}
	if cmd.Reversed {
		return e.Clustering >= last.Clustering
	}
	return e.Clustering <= last.Clustering
}
