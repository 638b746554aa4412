package repair

import (
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// The local key of a job's position, and its value:
//
//	repair/ name → table 4, start 8, end 8, part 4, token 8
//
// The range has one or two parts that do not wrap. All parts before part are done, and part is done up to token.
func (j *Run) key() []byte {
	if j.r.store == nil || j.job.Name == "" {
		return nil
	}
	return append([]byte("repair/"), j.job.Name...)
}

// rest returns the ranges that an earlier job of the same name has not completed.
func (j *Run) rest() []ring.Range {
	all := j.job.Range.Unwrap()
	key := j.key()
	if key == nil {
		return all
	}
	record, err := j.r.store.GetLocal(key)
	if err != nil || record == nil {
		return all
	}
	// A record of another table or range belongs to an earlier job of the same name, and the job starts from the
	// beginning.
	c := wire.NewCursor(record)
	table, of := schema.StorageID(c.Uint32()), ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	part, token := int(c.Uint32()), ring.Token(c.Int64())
	if c.Finish() != nil || table != j.job.Table || of != j.job.Range || part >= len(all) {
		return all
	}
	all = all[part:]
	// The part was complete; the next one, if there is one, is untouched.
	if all[0].Start = token; all[0].Start == all[0].End {
		all = all[1:]
	}
	return all
}

// store stores the position after a range.
func (j *Run) store(r ring.Range) {
	key := j.key()
	if key == nil {
		return
	}
	// A range that wraps has two parts, and r is in one of them.
	part := 0
	if all := j.job.Range.Unwrap(); len(all) == 2 && r.Start >= all[1].Start {
		part = 1
	}
	b := wire.AppendUint32(nil, uint32(j.job.Table))
	b = wire.AppendInt64(wire.AppendInt64(b, int64(j.job.Range.Start)), int64(j.job.Range.End))
	b = wire.AppendInt64(wire.AppendUint32(b, uint32(part)), int64(r.End))
	_ = j.r.store.SetLocal(key, b, false) // on failure the range is repeated
}
