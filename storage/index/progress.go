package index

import (
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Progress is the progress of the build of an index on one node. It is a snapshot.
type Progress struct {
	Built bool
	// Fraction is the fraction of the ring, from the least token on, whose rows have entries: 0 to 1.
	Fraction float64
	// Token belongs to the partition from which the build continues. Begun means that there is one.
	Token ring.Token
	Begun bool
	// Rows and Bytes count the stored rows and headers that this process has read for the build.
	Rows, Bytes int64
}

// Progress returns the progress of the build of an index. An unknown index counts as not built.
func (x *Values) Progress(table, id schema.StorageID) Progress {
	s, _ := x.state(table, id)
	p := Progress{Built: s.state == built, Rows: s.rows, Bytes: s.bytes}
	if p.Built {
		p.Fraction = 1
		return p
	}
	if p.Token, p.Begun = storage.TokenOfPosition(s.position); p.Begun {
		// Tokens are spread evenly by the partitioner, so their distance from the least one measures the rows.
		p.Fraction = float64(uint64(p.Token)^(1<<63)) / (1 << 64)
	}
	return p
}

// Rebuild makes an index unbuilt, so that Build starts over. Existing entries stay, because those of new rows are
// among them; the build writes them again. Rebuild does nothing for an unknown index.
func (x *Values) Rebuild(table, id schema.StorageID) error {
	x.building.Lock()
	defer x.building.Unlock()
	x.deciding.acquire()
	defer x.deciding.release()
	if _, ok := x.definition(table, id); !ok {
		return nil
	}
	// A step of a build that runs now would store its position over the change. The lock building, held above, excludes
	// it.
	return x.void(table, id, unbuilt)
}
