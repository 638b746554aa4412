package pages

import (
	"fmt"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// Dump adds the bytes of each partition of a table in one node's storage. into is by partition key and node; it grows
// by what this node stores. The pages are read from storage, so no other node takes part.
func Dump(e *storage.Engine, node ring.NodeID, table *schema.Table, now int64,
	into map[string]map[ring.NodeID][]byte) error {
	for p := (&Reader{Table: table.StorageID}); !p.done; {
		page, err := e.Read(nil, p.Command(now))
		if err != nil {
			return err
		}
		err = p.Took(page, func(r *row.PageReader, x *row.Row, continued bool) {
			key := string(r.Key.Bytes)
			if into[key] == nil {
				into[key] = map[ring.NodeID][]byte{}
			}
			b := into[key][node]
			// The header: the deletion of the partition and its static row, with its range tombstones. It is visited
			// once for each partition, even if the partition continues on later pages.
			if x == nil {
				b = fmt.Append(row.AppendRow(b, &r.Header), r.RangeTombstones)
			} else {
				b = row.AppendRow(append(b, x.Clustering...), x)
			}
			into[key][node] = b
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Rows returns the rows of a table in one node's storage that are live at a time, in seconds. An element is
// key/clustering.
func Rows(e *storage.Engine, table *schema.Table, now int64) (map[string]bool, error) {
	// Live rows only: tombstones and expired rows need not be the same on all replicas before a repair.
	rows := map[string]bool{}
	for p := (&Reader{Table: table.StorageID}); !p.done; {
		page, err := e.Read(nil, p.Command(now))
		if err != nil {
			return nil, err
		}
		err = p.Took(page, func(r *row.PageReader, x *row.Row, _ bool) {
			if x != nil && x.Live(now) {
				rows[string(r.Key.Bytes)+"/"+string(x.Clustering)] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Difference shows the first difference of pages. pages has at least two elements, sorted.
func Difference(pages []string) string {
	a, b := pages[0], pages[len(pages)-1]
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := max(n-20, 0)
	return fmt.Sprintf("at byte %d, %q or %q", n, a[from:min(n+40, len(a))], b[from:min(n+40, len(b))])
}
