package backups

import (
	"context"
	"fmt"
	"time"

	"cqld/schema"
)

// A restoration that replaces tables has steps that can be repeated. The job notes when all rows are there, because
// reading them takes long; the metadata show whether the tables were replaced.
//
//	an attempt ends                what the next one does
//	before all rows are restored   verifies the backup, and reads all rows again
//	before the replacement         waits for the indexes, and replaces the tables
//	after it                       adds the roles

// replace gives restored tables the names of others, when their indexes and views are built: until then, statements
// find the tables before. It does nothing if an earlier attempt has done it.
func (l *leader) replace(ctx context.Context, p *Planned, request Request,
	progress func(done, total int64, phase string)) error {
	if p.Replacement == nil {
		return nil
	}
	// A search by an index that a node has not built fails.
	request.Step = Build
	err := l.each(ctx, request, func(done, total int64) {
		// The job counts bytes, and these are tables.
		progress(0, 0, fmt.Sprintf("building indexes and views: %d of %d tables of the nodes have them", done, total))
	})
	if err != nil {
		return err
	}
	progress(0, 0, "replacing tables")
	// The plan is not changed: it says what another attempt has to do.
	c := *p.Replacement
	c.Retention = l.n.retention()
	return l.n.o.ProposeSchema(ctx, &c)
}

// retention returns how long tables that are replaced now can be restored, as DROP TABLE does; nil means that they
// cannot.
func (n *Node) retention() *schema.Retention {
	grace := n.o.DropGrace()
	// A grace below a second would be over at once.
	if grace < time.Second {
		return nil
	}
	now := n.o.Clock.Now().Unix()
	return &schema.Retention{Dropped: now, Until: now + int64(grace/time.Second)}
}

// build waits until this node has built the indexes and views of restored tables, which is done in the background.
// progress gets numbers of tables.
func (n *Node) build(ctx context.Context, r *Request, progress func(done, total int64)) error {
	// One table after the other: the builder builds one index after the other, too.
	for i, source := range r.Rows {
		for {
			// The metadata may change while this waits.
			t := tableByID(n.o.Cluster.Metadata().Schema, source.Into)
			if t == nil {
				return fmt.Errorf("the table with the rows of %s.%s was dropped", source.Keyspace, source.Name)
			}
			if !n.o.Unbuilt(t.StorageID) {
				break
			}
			progress(int64(i), int64(len(r.Rows)))
			if err := n.sleep(ctx, pollEvery); err != nil {
				return err
			}
		}
	}
	return nil
}
