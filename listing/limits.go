package listing

import "cmp"

// Limits are the bounds of listings. Zero means the default.
type Limits struct {
	// Keys is the maximum number of keys in one result: ten pages of a client.
	Keys int
	// Bytes bounds the keys of one result: 10,000 keys of 1 KiB, the longest that Azure Tables allows, exceed it. A
	// result has at least one key.
	Bytes int
	// ScanRows is the number of partitions that one read of a scan requests: 1,000 keys of 1 KiB are a quarter of the
	// page size that ends a read early.
	ScanRows uint32
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	l.Keys = cmp.Or(l.Keys, 10_000)
	l.Bytes = cmp.Or(l.Bytes, 4<<20)
	l.ScanRows = cmp.Or(l.ScanRows, 1_000)
	return l
}

// pageKeysMax bounds the keys that another node can request in one page. Storage ends a page earlier.
const pageKeysMax = 1 << 16
