package recovery

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"cqld/cluster/identity"
	"cqld/cluster/raftlog"
)

// Disk is the metadata log of a stopped node. Opening it fails while the node runs, because the log is locked.
type Disk struct {
	log *raftlog.Log
	fs  vfs.FS
}

// Open opens the metadata log in an existing directory; otherwise an empty log would be created. A nil fs means the
// operating system's file system.
func Open(dir string, fs vfs.FS) (*Disk, error) {
	if fs == nil {
		fs = vfs.Default
	}
	l, err := raftlog.Open(dir, fs, slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		return nil, err
	}
	return &Disk{l, fs}, nil
}

// FS returns the file system of the log, which may be an encrypting one.
func (d *Disk) FS() vfs.FS { return d.fs }

// Read returns the state in the log.
func (d *Disk) Read() (*State, error) {
	c, err := d.log.Contents()
	if err != nil {
		return nil, err
	}
	if c.Identity == nil {
		return nil, errNoMember
	}
	id, err := identity.Decode(c.Identity)
	if err != nil {
		return nil, err
	}
	s := &State{Identity: id, Hard: c.Hard, Snapshot: c.Snapshot, Entries: c.Entries}
	if s.Hard == nil {
		s.Hard = new(pb.HardState)
	}
	if s.Snapshot == nil {
		s.Snapshot = new(pb.Snapshot)
	}
	return s, nil
}

// Write replaces the state in the log. After a crash, the log has the old state or s.
func (d *Disk) Write(s *State) error {
	id, err := s.Identity.Encode()
	if err != nil {
		return err
	}
	return d.log.Replace(raftlog.Contents{Identity: id, Hard: s.Hard, Snapshot: s.Snapshot})
}

// Close releases the log, so that the node can start.
func (d *Disk) Close() error { return d.log.Close() }

// Update adopts a file on a disk. It returns false, and does nothing, if the node has already adopted the file.
func (d *Disk) Update(f *File) (changed bool, err error) {
	s, err := d.Read()
	if err != nil || f.Adopted(&s.Identity) {
		return false, err
	}
	next, err := f.Adopt(s)
	if err != nil {
		return false, err
	}
	return true, d.Write(next)
}
