package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang/snappy"

	"cqld/backup/bucket"
)

// LogFormat is the version of segments of archived logs.
const LogFormat = 1

// Names in a store that belong to archived logs.
const (
	logsDir       = "log"
	statesDir     = "states"
	segmentsInfix = "/segments"
	observedInfix = "/states"
	untilSuffix   = "/until.json"
	beginSuffix   = "/begin.json"
)

// segmentMagic begins each segment. Its last byte is LogFormat.
const segmentMagic = "cqldlog\x01"

// Logs are the archived logs in a store. Each method that writes may be repeated after an error. It is safe for
// concurrent use; each node writes its own log only.
type Logs struct{ store *Store }

// Logs returns the archived logs.
func (s *Store) Logs() Logs { return Logs{s} }

// Check returns ErrNoStore until the first backup has begun the store, and an error if this node must not write to it.
// Nodes that archive their logs begin no store: they would do so at the same time, each with a key of its own.
func (s Logs) Check(ctx context.Context) error {
	err := s.store.check(ctx)
	if err == nil {
		if err = s.store.files.permits(ctx); err != nil {
			err = s.store.failed("archive", err)
		}
	}
	return err
}

// LogOwner identifies the archived log of one node. Logs of different clusters never mix, also at one location. A node
// that replaces another one has another host id, and a log of its own.
type LogOwner struct {
	Cluster string // identifier of the cluster
	Host    string // host id of the node
}

// dir returns the directory of the node's log, whose names were checked.
func (o LogOwner) dir() (string, error) {
	if err := errors.Join(CheckName(o.Cluster), CheckName(o.Host)); err != nil {
		return "", fmt.Errorf("backup: the owner of a log: %w", err)
	}
	return logsDir + "/" + o.Cluster + "/" + o.Host, nil
}

// LogPosition is a position in the log of a node's storage engine. It has the fields of logarchive.Position, which this
// package does not import.
type LogPosition struct {
	// Since is the hybrid time (µs) at which archiving began in the node's directory. It changes when the directory
	// was used without archiving.
	Since  int64  `json:"since"`
	Log    uint64 `json:"log"`    // number of a file
	Offset uint64 `json:"offset"` // in the file
}

// Compare orders positions.
func (p LogPosition) Compare(q LogPosition) int {
	return cmp.Or(cmp.Compare(p.Since, q.Since), cmp.Compare(p.Log, q.Log), cmp.Compare(p.Offset, q.Offset))
}

// positionForm is the form of positions in names.
const positionForm = "%016x.%016x.%016x"

// Segment describes a part of an archived log. Times are hybrid times in microseconds.
type Segment struct {
	From, To LogPosition
	First    int64 // the earliest time of a write in the segment; 0 if it has none
	// Until is the time up to which the archive is complete with this segment: what the node accepted or learned until
	// then is in this segment, in earlier ones, or in the states that the node has observed. 0 means that this is
	// unknown.
	Until int64
	// Stored is when the node stored the segment, and Size is in bytes, as stored. PutSegment sets Size.
	Stored, Size int64
}

// name returns the name of the segment's file, which contains all of its fields: a list of names shows whether segments
// follow each other and how far they lead, without reading them.
func (g *Segment) name() string {
	return fmt.Sprintf("%016x-"+positionForm+"-"+positionForm+"-%016x-%016x-%x", g.Stored, g.From.Since, g.From.Log,
		g.From.Offset, g.To.Since, g.To.Log, g.To.Offset, g.First, g.Until, g.Size)
}

// parseSegment reads the name of a segment. ok is false for files that somebody else has put there.
func parseSegment(name string) (g Segment, ok bool) {
	_, err := fmt.Sscanf(name, "%x-%x.%x.%x-%x.%x.%x-%x-%x-%x", &g.Stored, &g.From.Since, &g.From.Log, &g.From.Offset,
		&g.To.Since, &g.To.Log, &g.To.Offset, &g.First, &g.Until, &g.Size)
	return g, err == nil && g.name() == name && g.check() == nil
}

// check refuses a segment that contradicts itself.
func (g *Segment) check() error {
	if g.From.Compare(g.To) >= 0 || g.From.Since != g.To.Since || g.From.Since < 0 || g.Stored <= 0 || g.First < 0 ||
		g.Until < 0 || g.Size < 0 {
		return fmt.Errorf("the segment from %v to %v contradicts itself", g.From, g.To)
	}
	return nil
}

// hour returns the name of the directory of segments that were stored in one hour.
func hour(at int64) string { return time.UnixMicro(at).UTC().Format(hourForm) }

// hourForm is the form of the names of these directories.
const hourForm = "2006010215"

// segmentFile returns the name of a segment's file.
func segmentFile(of LogOwner, g *Segment) (string, error) {
	dir, err := of.dir()
	if err == nil {
		err = g.check()
	}
	return dir + segmentsInfix + "/" + hour(g.Stored) + "/" + g.name(), err
}

// PutSegment stores a part of a node's log, which may be compressed. The caller may change data when PutSegment has
// returned. The same part may be stored again.
func (s Logs) PutSegment(ctx context.Context, of LogOwner, g Segment, data []byte) (Segment, error) {
	b := encodeSegment(data)
	g.Size = int64(len(b))
	name, err := segmentFile(of, &g)
	if err != nil {
		return g, err
	}
	if err := s.store.files.write(ctx, name, bucket.Bytes(b)); err != nil {
		return g, s.store.failed("write "+name, err)
	}
	return g, nil
}

// encodeSegment returns the content of a segment's file:
//
//	magic number and version 8, SHA-256 of what follows 32, length of the data 4, data compressed by Snappy
//
// Numbers are big endian. Snappy halves a typical log and costs less than the hash.
func encodeSegment(data []byte) []byte {
	head := len(segmentMagic) + sha256.Size
	b := make([]byte, head+4, head+4+snappy.MaxEncodedLen(len(data)))
	binary.BigEndian.PutUint32(b[head:], uint32(len(data)))
	// Without another copy.
	b = b[:head+4+len(snappy.Encode(b[head+4:cap(b)], data))]
	copy(b, segmentMagic)
	sum := sha256.Sum256(b[head:])
	copy(b[len(segmentMagic):], sum[:])
	return b
}

// decodeSegment reads the content of a segment's file.
func decodeSegment(b []byte) ([]byte, error) {
	head := len(segmentMagic) + sha256.Size
	last := len(segmentMagic) - 1
	// The version is compared before the hash: another version may have another one.
	switch {
	case len(b) < head+4 || string(b[:last]) != segmentMagic[:last]:
		return nil, errors.New("it is not a segment of a log")
	case b[last] != LogFormat:
		return nil, &UnknownFormat{int(b[last])}
	}
	sum := sha256.Sum256(b[head:])
	if !bytes.Equal(sum[:], b[len(segmentMagic):head]) {
		return nil, errors.New("its checksum is wrong: it was damaged or changed")
	}
	n := int(binary.BigEndian.Uint32(b[head:]))
	body := b[head+4:]
	// The decoder allocates what the header of the data announces.
	if announced, err := snappy.DecodedLen(body); err != nil || announced != n || n > segmentBytesMax {
		return nil, errors.New("its length is wrong")
	}
	return snappy.Decode(nil, body)
}

// ReadSegment calls use with the data of a segment, whose checksum was compared, and returns its error. pace is called
// with the number of bytes that were read, and may wait.
func (s Logs) ReadSegment(ctx context.Context, of LogOwner, g Segment, pace func(int) error,
	use func(data []byte) error) error {
	// The name of the segment has its size, which is compared.
	stored := s.store.memory.Charge(g.Size)
	data, err := s.segment(ctx, of, g, pace)
	stored()
	if err != nil {
		return err
	}
	defer s.store.memory.Charge(int64(len(data)))()
	return use(data)
}

// segment returns the data of a segment.
func (s Logs) segment(ctx context.Context, of LogOwner, g Segment, pace func(int) error) ([]byte, error) {
	name, err := segmentFile(of, &g)
	if err != nil {
		return nil, err
	}
	// Data that cannot be compressed grow by less than a quarter.
	b, err := small(ctx, s.store.files, name, segmentBytesMax+segmentBytesMax/4)
	if err == nil && int64(len(b)) != g.Size {
		err = fmt.Errorf("it has %d bytes instead of %d", len(b), g.Size)
	}
	if err == nil {
		err = pace(len(b))
	}
	if err == nil {
		b, err = decodeSegment(b)
	}
	if err != nil {
		return nil, s.store.failed("read "+name, err)
	}
	return b, nil
}

// hours returns the names of the hours with segments of a node, sorted.
func (s Logs) hours(ctx context.Context, of LogOwner) ([]string, error) {
	dir, err := of.dir()
	if err != nil {
		return nil, err
	}
	names, err := s.store.files.list(ctx, dir+segmentsInfix)
	if err != nil {
		return nil, s.store.failed("list", err)
	}
	// What somebody else has put there is no hour.
	names = slices.DeleteFunc(names, func(name string) bool {
		_, err := time.Parse(hourForm, name)
		return err != nil
	})
	slices.Sort(names)
	return names, nil
}

// segmentsIn returns the segments of an hour, in the order in which they were stored.
func (s Logs) segmentsIn(ctx context.Context, of LogOwner, hour string) (out []Segment, err error) {
	dir, err := of.dir()
	if err != nil {
		return nil, err
	}
	names, err := s.store.files.list(ctx, dir+segmentsInfix+"/"+hour)
	if err != nil {
		return nil, s.store.failed("list", err)
	}
	// Names begin with the time when the segment was stored.
	slices.Sort(names)
	for _, name := range names {
		if g, ok := parseSegment(name); ok {
			out = append(out, g)
		}
	}
	return out, nil
}

// LogEnd is the end of an archived log. It is the content of the note, and says where a node continues after a restart:
// the node itself keeps no position, which could differ from what the store has.
type LogEnd struct {
	Position LogPosition `json:"position"` // zero if nothing was archived
	Until    int64       `json:"until"`    // see Segment
	// Data is a segment without writes that ends at Position, if nothing was logged since the last one.
	Data []byte `json:"data,omitempty"`
}

// End returns the end of the archived log of a node. It is zero if the node has archived nothing.
func (s Logs) End(ctx context.Context, of LogOwner) (end LogEnd, err error) {
	// Segments may be newer than the note.
	if end, err = s.noteOf(ctx, of); err != nil {
		return end, err
	}
	hours, err := s.hours(ctx, of)
	for i := len(hours) - 1; i >= 0 && err == nil; i-- {
		var all []Segment
		// A sweep that was interrupted, or a write that failed, may have left a directory without segments.
		if all, err = s.segmentsIn(ctx, of, hours[i]); err != nil || len(all) == 0 {
			continue
		}
		// A request that was executed late may have stored an earlier segment after a later one.
		for _, g := range all {
			if g.To.Compare(end.Position) > 0 {
				end = LogEnd{Position: g.To, Until: max(g.Until, end.Until)}
			}
		}
		break
	}
	return end, err
}

// noteOf returns what PutEnd has written last.
func (s Logs) noteOf(ctx context.Context, of LogOwner) (end LogEnd, err error) {
	dir, err := of.dir()
	if err == nil {
		_, err = s.store.read(ctx, dir+untilSuffix, &end)
	}
	return end, err
}

// PutEnd notes that the archive of a node is complete until a time although nothing was logged since its last
// segment. It replaces the previous note.
func (s Logs) PutEnd(ctx context.Context, of LogOwner, end LogEnd) error {
	dir, err := of.dir()
	if err != nil {
		return err
	}
	return s.store.write(ctx, dir+untilSuffix, end)
}

// PutBeginning notes that the log of a node contains, from a position on, everything that was ever written to its
// directory. Moments can then be restored although no backup has files of the node.
func (s Logs) PutBeginning(ctx context.Context, of LogOwner, p LogPosition) error {
	dir, err := of.dir()
	if err != nil {
		return err
	}
	return s.store.write(ctx, dir+beginSuffix, p)
}

// Beginning returns what PutBeginning has written last.
func (s Logs) Beginning(ctx context.Context, of LogOwner) (p LogPosition, found bool, err error) {
	dir, err := of.dir()
	if err == nil {
		found, err = s.store.read(ctx, dir+beginSuffix, &p)
	}
	return p, found && p != LogPosition{}, err
}
