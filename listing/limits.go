package listing

// Limits are the bounds of listings. Zero means the default.
type Limits struct {
	// Keys is the most keys in one result: ten pages of a client.
	Keys int
	// Bytes bounds the keys of one result: 10,000 keys of 1 KiB, the longest that Azure Tables allows, exceed it. A result has at
	// least one key.
	Bytes int
	// ScanRows is how many partitions one read of a scan asks for: 1,000 keys of 1 KiB are a quarter of the page that ends a read
	// early.
	ScanRows uint32
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	setDefault(&l.Keys, 10_000)
	setDefault(&l.Bytes, 4<<20)
	setDefault(&l.ScanRows, 1_000)
	return l
}

func setDefault[T ~int | ~uint32](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// pageKeysMax bounds the keys that another node can request in one page. Storage ends a page earlier.
const pageKeysMax = 1 << 16
