package storage

import (
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/export"
)

// Export appends to dst a block of the entries of a table with a token in tokens, which may wrap, and a key greater
// than after, which is nil for the first block. The block ends at about bytesMax. next is the after of the next
// block, or nil if this is the last one. of, unless nil, selects rows by their clustering; other rows are omitted, and
// count towards bytesMax.
func (e *Engine) Export(dst []byte, id schema.StorageID, tokens ring.Range, of func(clustering []byte) bool,
	after []byte, bytesMax int,
) (out, next []byte, err error) {
	if err := e.db.Err(); err != nil {
		return dst, nil, err
	}
	return export.Append(e.db.DB, dst, &export.Query{Table: id, Tokens: tokens, Of: of, After: after,
		BytesMax: bytesMax, Refuse: func(r ring.Range) error {
			// Without the lost rows, the block would look complete to its receiver, so the export fails.
			if lost := e.lost.Overlaps(id, r); lost != nil {
				return lost.Err()
			}
			return nil
		}})
}
