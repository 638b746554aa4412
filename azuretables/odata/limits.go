package odata

import (
	"encoding/binary"
	"math/bits"
)

// Limits bounds what a request may contain. The defaults are the service's; a configuration may raise them. Zero fields
// are replaced by WithDefaults. A limit may be lowered as well; entities that exceed it can still be read.
type Limits struct {
	Properties      int // of one entity, without keys and Timestamp: 252
	NameChars       int // UTF-16 code units of a property's name: 255
	ValueBytes      int // of one String (as UTF-16) or Binary: 64 KiB
	EntityBytes     int // of one entity, as EntityBytes counts: 1 MiB
	KeyBytes        int // of a PartitionKey or RowKey, as UTF-16: 1 KiB
	BatchOperations int // of one $batch: 100
	BatchBytes      int // of a $batch's body: 4 MiB
	FilterBytes     int // of a $filter's text: 32 KiB, more than a URL holds
	// in one $filter: 1,000, as many as the request line holds; the service documents 15 and serves more
	Comparisons int
	FilterDepth int // of parentheses and not in one $filter: 100, some kB of stack each
}

// The service's limits.
const (
	properties      = 252
	nameChars       = 255
	valueBytes      = 64 << 10
	entityBytes     = 1 << 20
	keyBytes        = 1 << 10
	batchOperations = 100
	batchBytes      = 4 << 20
	filterBytes     = 32 << 10
	comparisons     = 1000
	filterDepth     = 100
)

// DefaultLimits returns the limits of the service. Only FilterBytes, Comparisons and FilterDepth are not the service's
// own. The result is a copy.
func DefaultLimits() Limits {
	return Limits{
		Properties: properties, NameChars: nameChars, ValueBytes: valueBytes, EntityBytes: entityBytes,
		KeyBytes:        keyBytes,
		BatchOperations: batchOperations, BatchBytes: batchBytes,
		FilterBytes: filterBytes, Comparisons: comparisons, FilterDepth: filterDepth,
	}
}

// WithDefaults returns l with the service's value in every field that is zero. l itself does not change.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	// A limit cannot be disabled, because zero means the default.
	fill := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	fill(&l.Properties, d.Properties)
	fill(&l.NameChars, d.NameChars)
	fill(&l.ValueBytes, d.ValueBytes)
	fill(&l.EntityBytes, d.EntityBytes)
	fill(&l.KeyBytes, d.KeyBytes)
	fill(&l.BatchOperations, d.BatchOperations)
	fill(&l.BatchBytes, d.BatchBytes)
	fill(&l.FilterBytes, d.FilterBytes)
	fill(&l.Comparisons, d.Comparisons)
	fill(&l.FilterDepth, d.FilterDepth)
	return l
}

// propertyBytes is the size of a property in addition to its name and value. The service's formula has it for each
// property, whatever its type.
const propertyBytes = 8

// EntityBytes returns an entity's size as the service counts it: 4 bytes, the keys as UTF-16, and for each property 8
// bytes, its name as UTF-16 and its value (a String as UTF-16 plus 4, a Binary plus 4, Boolean 1, Int32 4, Int64,
// DateTime and Double 8, GUID 16). (Windows Azure Storage team, "How many entities…".) Timestamp is not counted.
//
// For example, an entity without properties and with empty keys has 4 bytes.
func (e *Entity) EntityBytes() int {
	size := 4 + 2*(utf16Len(e.PartitionKey)+utf16Len(e.RowKey))
	for i := range e.Properties {
		size += e.Properties[i].EntityBytes()
	}
	return size
}

// EntityBytes returns the property's share of its entity's size. The name counts as UTF-16.
func (p *Property) EntityBytes() int { return PropertyBytes(p.Name) + p.Value.EntityBytes() }

// PropertyBytes returns that share without the value. It lets a store add up names without their values.
func PropertyBytes(name string) int { return propertyBytes + 2*utf16Len(name) }

// EntityBytes returns the value's share of its entity's size. The zero Value counts as 8 bytes.
func (v *Value) EntityBytes() int {
	switch v.Type {
	case String:
		return 4 + 2*utf16LenBytes(v.Bytes)
	case Binary:
		return 4 + len(v.Bytes)
	case Boolean:
		return 1
	case Int32:
		return 4
	case GUID:
		return 16
	}
	// Int64, DateTime, Double.
	return 8
}

// utf16Len returns the number of UTF-16 code units of a UTF-8 text: one for each character, two for those above U+FFFF,
// which have four bytes in UTF-8. s must be valid UTF-8. Surrogates cannot occur in valid UTF-8.
func utf16Len(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		n += utf16Units(s[i])
	}
	return n
}

// utf16LenBytes is utf16Len for bytes, 32 at a time. On ASCII it takes an eighth of the time.
func utf16LenBytes(s []byte) int {
	n := len(s)
	for len(s) >= 32 {
		x, y := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
		z, w := binary.LittleEndian.Uint64(s[16:]), binary.LittleEndian.Uint64(s[24:])
		// ASCII has one unit for each byte, so nothing is added.
		if (x|y|z|w)&highs != 0 {
			n += utf16More(x) + utf16More(y) + utf16More(z) + utf16More(w)
		}
		s = s[32:]
	}
	for _, c := range s {
		n += utf16Units(c) - 1
	}
	return n
}

// utf16More returns the number of code units in eight bytes minus eight. Continuation bytes, 10xxxxxx, subtract one
// each; first bytes of four, 1111xxxx, add one. x has eight bytes in any order.
func utf16More(x uint64) int {
	// The bits below the highest bit of each byte, shifted to its position.
	second, third, fourth := x<<1, x<<2, x<<3
	return bits.OnesCount64(x&second&third&fourth&highs) - bits.OnesCount64(x&^second&highs)
}

// utf16Units returns the units that begin at a byte of UTF-8: 0 for a continuation byte. It looks at the first byte of
// a character only.
func utf16Units(c byte) int {
	switch {
	case c&0xC0 == 0x80:
		return 0
	case c >= 0xF0:
		return 2
	}
	return 1
}

// Check returns TooManyProperties or EntityTooLarge if the whole entity exceeds the limits. The result of a merge is
// checked by it again. Names, keys and values were checked one by one. It does not look at names or keys.
func (l *Limits) Check(e *Entity) error {
	if len(e.Properties) > l.Properties {
		return beyond(TooManyProperties, l.Properties, properties)
	}
	// One byte of UTF-8 is at most 2 bytes of UTF-16: below this estimate the exact count is not needed. An
	// overestimate: 16 is the largest size of a value without Bytes, and more than the 4 bytes of one with.
	rough := 4 + 2*(len(e.PartitionKey)+len(e.RowKey))
	for i := range e.Properties {
		p := &e.Properties[i]
		rough += propertyBytes + 2*len(p.Name) + 16 + 2*len(p.Value.Bytes)
	}
	if rough > l.EntityBytes && e.EntityBytes() > l.EntityBytes {
		return beyond(EntityTooLarge, l.EntityBytes, entityBytes)
	}
	return nil
}

// keyForbidden contains a bit for each character below U+0040 that a key must not contain. Bits 0 to 31 are the control
// characters.
const keyForbidden uint64 = 1<<0x20 - 1 | 1<<'/' | 1<<'#' | 1<<'?'

// CheckKey returns nil if key is a valid PartitionKey or RowKey: at most KeyBytes as UTF-16, and without / \ # ? and
// the control characters U+0000–001F and U+007F–009F. The characters are ones that a URL's path cannot contain
// reliably. The empty key is valid.
func (l *Limits) CheckKey(key string) error {
	// The number of bytes is at least the number of UTF-16 units, so short keys need no count.
	if 2*len(key) > l.KeyBytes && 2*utf16Len(key) > l.KeyBytes {
		return beyond(KeyValueTooLarge, l.KeyBytes, keyBytes)
	}
	for i := 0; i < len(key); i++ {
		c := key[i]
		// U+0080–009F are C2 80 to C2 9F in UTF-8.
		if c < 0x40 && keyForbidden>>c&1 != 0 || c == '\\' || c == 0x7F ||
			c == 0xC2 && i+1 < len(key) && key[i+1] < 0xA0 {
			return newError(OutOfRangeInput)
		}
	}
	return nil
}
