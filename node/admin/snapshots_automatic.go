package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/node/snapshot"
	"cqld/ring"
	"cqld/schema"
)

const (
	// flushWait bounds how long an automatic snapshot waits for a flush, which saves space only.
	flushWait = 10 * time.Second
	// snapshotsEvery is how often the node checks whether a snapshot has expired or the disk is nearly full.
	snapshotsEvery = 30 * time.Second
	// snapshotsLook is the longest time between two looks at the manifests, which an operator may copy or remove.
	snapshotsLook = time.Hour
	// automaticMax is how many automatic snapshots a node keeps. A program that truncates tables all the time would
	// otherwise fill its directory, and each look would read all of their manifests.
	automaticMax = 256
)

// BeforeTruncate makes a snapshot of a table whose rows TRUNCATE removes next, unless auto_snapshot or the table's
// allow_auto_snapshot is off. After an error, the rows must not be removed.
//
// The snapshot has no checksums: its files belong to several tables, and reading them could take longer than the
// statement (docs/adr/0046-snapshots-before-removals.md).
func (v *Snapshots) BeforeTruncate(id schema.StorageID) error {
	return v.beforeRemoval(v.catalog.schema(), id, snapshot.Truncated)
}

// BeforeDrop is BeforeTruncate for the data of a dropped table. before is the last schema with the table. If it is nil,
// no snapshot is made: nothing could read the rows without their columns. A table that was retained gets none either:
// its drop could be undone until now (ADR 50).
func (v *Snapshots) BeforeDrop(before *schema.Schema, id schema.StorageID) error {
	if before == nil {
		return nil
	}
	return v.beforeRemoval(before, id, snapshot.Dropped)
}

// beforeRemoval makes a snapshot of a table of catalog, if it has data and the disk has space.
func (v *Snapshots) beforeRemoval(catalog *schema.Schema, id schema.StorageID, reason snapshot.Reason) error {
	t := catalog.TableByStorage(id)
	if !v.auto.Auto || t == nil || t.Virtual || t.View != nil || schema.IsSystem(t.Keyspace) ||
		!t.Options.AllowAutoSnapshot || t.Retention != nil {
		return nil
	}
	// A table that cannot be read has data: its files are linked, not read.
	if empty, err := v.engine.EmptyRange(id, ring.FullRange()); err == nil && empty {
		return nil
	}
	log := v.log.With("table", t.Keyspace+"."+t.Name, "reason", string(reason))
	// The removal may be what gives the disk space again.
	if v.engine.DiskFull() {
		log.Warn("no snapshot before the removal of a table: the disk is nearly full")
		return nil
	}
	m := v.manifest(catalog, []*schema.Table{t})
	m.Reason, m.Created = reason, v.clock.Now().UTC()
	if v.auto.TTL > 0 {
		expires := m.Created.Add(v.auto.TTL)
		m.Expires = &expires
	}
	v.reserveAutomatic(m, t.Name)
	defer v.release(m.Name)
	err := v.makeFlushed(m)
	if vfs.IsNoSpaceError(err) {
		log.Warn("no snapshot before the removal of a table: the disk is full", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the data of %s.%s stay, because auto_snapshot is on and their snapshot failed: %w",
			t.Keyspace, t.Name, err)
	}
	v.changed.Store(true)
	log.Info("snapshot made before the removal of a table", "snapshot", m.Name)
	return nil
}

// reserveAutomatic names a snapshot as Cassandra does, and claims the name. Tables of two keyspaces may have one name,
// and be removed in the same millisecond.
func (v *Snapshots) reserveAutomatic(m *snapshot.Manifest, table string) {
	for millis := m.Created.UnixMilli(); ; millis++ {
		m.Name = fmt.Sprintf("%s-%d-%s", m.Reason, millis, table)
		if v.reserve(m.Name) {
			return
		}
	}
}

// makeFlushed flushes the memtables and makes a snapshot. The flush saves space: files of rows are linked, but the log,
// with the rows of all tables that are not flushed, is copied.
func (v *Snapshots) makeFlushed(m *snapshot.Manifest) error {
	ctx, cancel := context.WithTimeout(v.lifetime, flushWait)
	defer cancel()
	// After a timeout, the copy of the log has the rows.
	if err := v.engine.FlushUntil(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return v.make(v.lifetime, m, false)
}

// retain keeps an automatic snapshot until unretain, although it expires or the disk becomes nearly full.
func (v *Snapshots) retain(tag string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.retained == nil {
		v.mu.retained = map[string]bool{}
	}
	v.mu.retained[tag] = true
}

// unretain ends the effect of retain.
func (v *Snapshots) unretain(tag string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.mu.retained, tag)
	v.changed.Store(true)
}

// retains reports whether a snapshot is retained.
func (v *Snapshots) retains(tag string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.retained[tag]
}

// Watch removes expired snapshots, and the oldest beyond automaticMax, until stop is closed. While the disk is nearly
// full, it removes all that the node has made by itself: they must not be what makes it refuse writes.
func (v *Snapshots) Watch(stop <-chan struct{}) {
	var next time.Time
	for more := true; more; more = env.Pause(v.clock, snapshotsEvery, nil, stop) {
		now, full := v.clock.Now(), v.engine.DiskFull()
		// The manifests are read only when there may be something to remove.
		if !v.changed.Swap(false) && !full && now.Before(next) {
			continue
		}
		var err error
		if next, err = v.removeExpired(now, full); err != nil {
			v.log.Error("snapshots could not be removed", "err", err)
			next = time.Time{} // try again after the pause
		}
	}
}

// removeExpired removes the snapshots that the node has made by itself and whose time is over, the oldest of the others
// beyond automaticMax, or all of them. It returns when the manifests must be read again.
func (v *Snapshots) removeExpired(now time.Time, all bool) (next time.Time, err error) {
	v.files.Lock()
	defer v.files.Unlock()
	tags, err := v.tags()
	var kept []*snapshot.Manifest
	remove := func(tag string, why string) {
		if failed := v.removeLocked(tag); failed != nil {
			err = errors.Join(err, failed)
			return
		}
		v.log.Info("snapshot removed", "snapshot", tag, "reason", why)
	}
	next = now.Add(snapshotsLook)
	for _, tag := range tags {
		// The name decides only which manifests are read.
		if !strings.HasPrefix(tag, string(snapshot.Truncated)+"-") &&
			!strings.HasPrefix(tag, string(snapshot.Dropped)+"-") {
			continue
		}
		m, failed := snapshot.Read(v.disk, v.path(tag))
		// listsnapshots reports one whose manifest cannot be read; an operator removes it.
		switch {
		case failed != nil || m.Reason == snapshot.Manual || v.retains(tag):
		case all:
			remove(tag, "the disk is nearly full")
		case m.Expires != nil && !now.Before(*m.Expires):
			remove(tag, "expired")
		default:
			// A directory may have been renamed since.
			m.Name = tag
			kept = append(kept, m)
			if m.Expires != nil && m.Expires.Before(next) {
				next = *m.Expires
			}
		}
	}
	// The newest first. The names of snapshots of one moment differ, so the order is always the same.
	slices.SortFunc(kept, func(a, b *snapshot.Manifest) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name))
	})
	for _, m := range kept[min(len(kept), automaticMax):] {
		remove(m.Name, fmt.Sprintf("there are %d later ones", automaticMax))
	}
	return next, err
}
