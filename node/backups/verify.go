package backups

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"cqld/backup"
)

// Verify reads all objects of a backup and compares them with its manifest, at the pace of streams. progress gets
// bytes.
func (n *Node) Verify(ctx context.Context, location, name string, progress func(done, total int64)) (backup.Verified,
	error) {
	s, err := n.o.Open(location)
	if err != nil {
		return backup.Verified{}, err
	}
	m, err := s.Manifest(ctx, name)
	if err != nil {
		return backup.Verified{}, err
	}
	out, err := n.compare(ctx, s, m.Objects(), progress)
	if _, failed := s.Contents(ctx, m); err == nil && failed != nil {
		out.Problems = append(out.Problems, failed.Error())
	}
	return out, err
}

// reportEvery is how many bytes are compared between two reports.
const reportEvery = 4 << 20

// compare reads objects and compares them with their hashes.
func (n *Node) compare(ctx context.Context, s *backup.Store, objects []backup.Object,
	progress func(done, total int64)) (backup.Verified, error) {
	var total int64
	for _, o := range objects {
		total += o.Size
	}
	pace := n.pacer(ctx, n.yielding)
	var mu sync.Mutex
	var done, reported int64
	return s.Verify(ctx, objects, func(bytes int) error {
		mu.Lock()
		done += int64(bytes)
		// Each report is a message to the operator.
		if done-reported >= reportEvery || done == total {
			reported = done
			progress(done, total)
		}
		mu.Unlock()
		return pace(bytes)
	})
}

// verify compares this node's part of the objects of a backup with their hashes, before a restoration.
func (n *Node) verify(ctx context.Context, r *Request, progress func(done, total int64)) error {
	s, err := n.o.Open(r.Location)
	if err != nil {
		return err
	}
	m, err := manifestOf(ctx, s, r)
	if err != nil {
		return err
	}
	if err := n.settled(ctx, r.Epoch); err != nil {
		return err
	}
	// Nodes with the same ring divide the objects in the same way.
	nodes, self := n.o.Cluster.Metadata().Topology.Nodes(), n.o.Cluster.Self()
	var own []backup.Object
	for i, o := range m.Objects() {
		if nodes[i%len(nodes)].ID == self {
			own = append(own, o)
		}
	}
	v, err := n.compare(ctx, s, own, progress)
	if err != nil {
		return err
	}
	if len(v.Problems) == 0 {
		return n.verifyMoment(ctx, s, m, r)
	}
	return fmt.Errorf("backup %s is damaged, and is not restored: %s", m.Name, strings.Join(v.Problems, "; "))
}

// verifyMoment reads this node's part of the segments that lead to a moment, if a request has one.
func (n *Node) verifyMoment(ctx context.Context, s *backup.Store, m *backup.Manifest, r *Request) error {
	if r.Step != VerifyMoment {
		return nil
	}
	x, err := n.momentOf(ctx, s, m, r.At, r.State)
	if err != nil {
		return err
	}
	nodes, self := n.o.Cluster.Metadata().Topology.Nodes(), n.o.Cluster.Self()
	return n.scan(ctx, s, m, x, r.Tables, func(i int) bool { return nodes[i%len(nodes)].ID == self })
}

// manifestOf returns the manifest of the backup that is restored, which must be the one that the leader has read:
// another backup with this name may have replaced it, or the node may see another directory.
func manifestOf(ctx context.Context, s *backup.Store, r *Request) (*backup.Manifest, error) {
	m, err := s.Manifest(ctx, r.Backup)
	if err == nil && identity(m) != r.Nonce {
		err = errOtherStore
	}
	return m, err
}

// identity distinguishes backups with the same name: a job makes one backup, at one time.
func identity(m *backup.Manifest) string { return fmt.Sprintf("%s at %d", m.Job, m.HybridTime) }
