package odata

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys is the set of an entity's keys that a body contains. HasTypedKey is a flag, not a key. The body of an insert
// must contain both; an update has its keys in the URL.
type Keys uint8

// The keys.
const (
	HasPartitionKey Keys = 1 << iota
	HasRowKey
	// HasTypedKey marks a body with a key that is a number, or is annotated with a type other than Edm.String.
	HasTypedKey
	HasBoth = HasPartitionKey | HasRowKey
)

// Need returns an error unless k contains both keys, as strings, which an insert requires: PropertiesNeedValue,
// InvalidInput. A key may be the empty string.
func (k Keys) Need() error {
	if k&HasTypedKey != 0 {
		return errBody()
	}
	// HasTypedKey was handled above, so only the two keys remain.
	if k != HasBoth {
		return newError(PropertiesNeedValue)
	}
	return nil
}

// DecodeEntity parses an entity's JSON into an Entity, whose Properties it reuses; Timestamp becomes 0. It takes
// ownership of body: it unescapes strings in place, and the Bytes of the values refer to body. It ignores properties
// with the value null, annotations (odata.…), and a Timestamp. The type annotation of a property may precede or follow
// it. The error is an *Error with the service's code; into is then undefined. All names and keys share one allocation.
// body must not be used by the caller afterwards, except through the entity.
//
// An entity with all properties null is valid, and has none.
func DecodeEntity(body []byte, l *Limits, into *Entity) (Keys, error) {
	// Keys and Timestamp of a reused entity must not remain.
	*into = Entity{Properties: into.Properties[:0]}
	d := decoder{cursor: cursor{body: body}, limits: l, into: into, properties: into.Properties}
	if err := d.object(); err != nil {
		return 0, err
	}
	return d.finish()
}

// kind is the kind of a JSON value. It decides, with the annotation, how a value is converted. It fits the lowest byte
// of raw.Int.
type kind uint8

const (
	absent kind = iota // only its annotation was read so far
	null
	text    // a string, unescaped
	integer // a number without a fraction and exponent
	number  // any other number
	yes     // true
	no      // false
)

// raw is the unconverted value of a name. It is stored in the property's Value until the whole body is read, because an
// annotation may follow: Type is the annotated type or zero, Bytes is the text of a string or number, and Int contains
// the kind (8 bits), the length of the name (24 bits), and the name's position in body. Storing it in the Value avoids
// a second list of the same length.
//
// The bits of Int:
//
//	63        32 31        8 7    0
//	│ position  │ length    │ kind │
type raw Value

// Reading and setting the kind keeps the other two.
func (r *raw) kind() kind     { return kind(r.Int) }
func (r *raw) setKind(k kind) { r.Int = r.Int&^0xFF | int64(k) }

// system identifies the three names that are not properties. Their values are read like the values of properties, but
// are not counted as properties. They are indexes of decoder.system.
type system uint8

const (
	partitionKey system = iota
	rowKey
	timestamp
)

// few is the size of an index for entities of up to 96 properties.
const few = 128

// decoder adds properties to properties as it reads them. It contains no pointer to itself, so that it stays on the
// stack. It reads a body once, from the beginning.
type decoder struct {
	cursor
	limits     *Limits
	into       *Entity
	properties []Property
	system     [3]raw // by system

	// The index of names: hash → index into Properties, plus 1; zero means free.
	index [few]uint16 // at most three quarters full
	many  []uint16    // replaces index when that is too full
}

// object reads the whole body: one JSON object and nothing after it. Trailing commas are errors.
func (d *decoder) object() error {
	// .NET clients may send a byte order mark.
	d.body = bytes.TrimPrefix(d.body, []byte("\ufeff"))
	if !d.take('{') {
		return errBody()
	}
	if !d.take('}') {
		for {
			if err := d.member(); err != nil {
				return err
			}
			if d.take('}') {
				break
			}
			if !d.take(',') {
				return errBody()
			}
		}
	}
	// peek skips white space; a zero byte in the body is not the end.
	if d.peek() != 0 || d.pos != len(d.body) {
		return errBody()
	}
	return nil
}

// member reads a name and its value. The name has been unescaped in place, so two spellings of one name are equal.
func (d *decoder) member() error {
	name := d.text()
	if d.bad || !d.take(':') {
		return errBody()
	}
	// name@odata.type annotates a property.
	if at := bytes.IndexByte(name, '@'); at >= 0 {
		return d.annotation(name[:at], name[at+1:])
	}
	// Annotations of the entity itself, such as odata.etag, which clients send back as they received them.
	if bytes.HasPrefix(name, []byte("odata.")) {
		d.skip(0)
		return d.unlessBad()
	}
	r, err := d.named(name)
	if err != nil {
		return err
	}
	if r.kind() != absent {
		// The service reports a repeated name as a malformed body. A null counts as well.
		return errBody() // the name occurs twice
	}
	d.value(r)
	return d.unlessBad()
}

// unlessBad returns the error for malformed JSON, if any was found.
func (d *decoder) unlessBad() error {
	if d.bad {
		return errBody()
	}
	return nil
}

// annotation reads the value of an annotation. Annotations other than odata.type are ignored, but finish refuses the
// annotation of a property without a value. The type of an entity itself (odata.type) is skipped by member. The name of
// an annotation has a namespace and thus a point (OData 3.0, "JSON Format", Annotations); without one it is the name of
// a property, which must not contain "@".
func (d *decoder) annotation(name, what []byte) error {
	if bytes.IndexByte(what, '.') < 0 {
		return newError(PropertyNameInvalid)
	}
	// It annotates the entity.
	if len(name) == 0 {
		d.skip(0)
		return d.unlessBad()
	}
	// Every annotation adds its property, so that finish refuses {"user@example.com":1}, which is meant as a property.
	r, err := d.named(name)
	if err != nil {
		return err
	}
	if string(what) != "odata.type" {
		d.skip(0)
		return d.unlessBad()
	}
	t := typeOf(d.text())
	// An unknown type, or a second annotation of the same name.
	if d.bad || t == 0 || r.Type != 0 {
		return errBody()
	}
	r.Type = t
	return nil
}

// typeOf returns the type for an EDM name, or 0. It does not allocate. Collections and complex types have no name here:
// properties have no structure in the Table service.
func typeOf(name []byte) Type {
	switch string(name) {
	case "Edm.String":
		return String
	case "Edm.Binary":
		return Binary
	case "Edm.Boolean":
		return Boolean
	case "Edm.DateTime":
		return DateTime
	case "Edm.Double":
		return Double
	case "Edm.Guid":
		return GUID
	case "Edm.Int32":
		return Int32
	case "Edm.Int64":
		return Int64
	}
	return 0
}

// value reads a property's value without conversion: its type is known only after all annotations. Strings are
// unescaped now, since that moves bytes in body.
func (d *decoder) value(r *raw) {
	switch d.peek() {
	case '"':
		r.setKind(text)
		r.Bytes = d.text()
	case 't':
		r.setKind(yes)
		d.word("true")
	case 'f':
		r.setKind(no)
		d.word("false")
	case 'n':
		r.setKind(null)
		d.word("null")
	// number fails if there is no number either, which includes objects and arrays: properties have no structure.
	default:
		whole := false
		r.setKind(number)
		if r.Bytes, whole = d.number(); whole {
			r.setKind(integer)
		}
	}
}

// named returns the raw value for name, which text has just read (or for the part before an annotation). It creates a
// property for a new name. The result is valid until the next property is added. The error is TooManyProperties,
// PropertyNameTooLong or PropertyNameInvalid. The three system names cannot be names of properties.
func (d *decoder) named(name []byte) (*raw, error) {
	switch string(name) {
	case "PartitionKey":
		return &d.system[partitionKey], nil
	case "RowKey":
		return &d.system[rowKey], nil
	case "Timestamp":
		return &d.system[timestamp], nil
	}
	// An annotation usually precedes its property directly.
	ps := d.properties
	if n := len(ps); n > 0 && string(d.nameOf(&ps[n-1])) == string(name) {
		return (*raw)(&ps[n-1].Value), nil
	}
	// Open addressing needs free slots: the table grows when it is three quarters full.
	if 4*len(ps) >= 3*len(d.table()) {
		d.grow()
	}
	at := d.find(name)
	if i := d.table()[at]; i != 0 {
		return (*raw)(&ps[i-1].Value), nil
	}
	// A name is checked once, when it first occurs.
	if err := d.limits.checkName(name); err != nil {
		return nil, err
	}
	// Null values are not properties, but the number of names must be bounded, too. Slots are 16 bits, and 0 means
	// free.
	if len(ps) >= 2*d.limits.Properties || len(ps) >= 1<<16-2 {
		return nil, beyond(TooManyProperties, d.limits.Properties, properties)
	}
	// Reused capacity keeps its old contents, which are overwritten below.
	if len(ps) < cap(ps) {
		d.properties = ps[:len(ps)+1]
	} else {
		d.properties = append(ps, Property{})
	}
	d.table()[at] = uint16(len(ps) + 1)
	p := &d.properties[len(ps)]
	// checkName bounds the length far below 24 bits. The kind is absent, which is 0.
	p.Name, p.Value = "", Value{Int: int64(d.start)<<32 | int64(len(name))<<8}
	return (*raw)(&p.Value), nil
}

// nameOf returns the name of a property whose Name is not set yet, from the body. It is valid until finish, because
// text unescapes a name before named is called and does not move it later. Name itself is set in finish, when all names
// share one string.
func (d *decoder) nameOf(p *Property) []byte {
	start, size := p.Value.Int>>32, p.Value.Int>>8&0xFFFFFF
	return d.body[start : start+size]
}

// table returns the table in use. Its length is a power of two, so a mask replaces a division. Lengths are 128, 512,
// 2048 and so on.
func (d *decoder) table() []uint16 {
	if d.many != nil {
		return d.many
	}
	return d.index[:]
}

// find returns the slot in the table that contains the name, or in which it belongs (open addressing). It ends because
// the table always has free slots. The table has no deletions.
func (d *decoder) find(name []byte) uint32 {
	table := d.table()
	mask := uint32(len(table) - 1)
	for h := hash(name); ; h++ {
		i := table[h&mask]
		// Slots contain the number of the property from 1, so that zero is a free slot.
		if i == 0 || string(d.nameOf(&d.properties[i-1])) == string(name) {
			return h & mask
		}
	}
}

// hash hashes the first and last eight bytes of a name and its length. Deliberate collisions cost at most a linear
// search, which Limits.Properties bounds. A seed is not necessary for that reason. The result is spread over the table
// by its low bits.
func hash(name []byte) uint32 {
	h := uint64(len(name))
	// The two words overlap for names of 9 to 15 bytes, which does no harm.
	if n := len(name); n >= 8 {
		h += binary.LittleEndian.Uint64(name) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(name[n-8:]), 23)
	} else {
		for _, c := range name {
			h = h<<8 | uint64(c)
		}
	}
	// Fibonacci hashing: the multiplication moves the differences to the upper bits.
	return uint32(h * 0x9E3779B97F4A7C15 >> 32)
}

// grow replaces the table by one of four times the size. The new table is at most a fifth full, so that growing is
// rare. It may grow several times, up to Limits.Properties.
func (d *decoder) grow() {
	d.many = make([]uint16, 4*len(d.table()))
	// Every name is entered again, because its slot depends on the size.
	for i := range d.properties {
		d.many[d.find(d.nameOf(&d.properties[i]))] = uint16(i + 1)
	}
}

// checkName returns nil if name is a valid property name: a C# identifier of at most NameChars. The limit counts UTF-16
// code units, at most one per byte, so most names need no count. Names such as odata.x are not identifiers, because of
// the point.
func (l *Limits) checkName(name []byte) error {
	if len(name) > l.NameChars && utf16LenBytes(name) > l.NameChars {
		return beyond(PropertyNameTooLong, l.NameChars, nameChars)
	}
	if !identifier(name) {
		return newError(PropertyNameInvalid)
	}
	return nil
}

// identifier reports whether name consists of a letter or _, and then letters, digits, and Unicode connecting,
// combining and formatting characters (C# specification, "Identifiers"). Keywords of C# are allowed.
func identifier[T ~string | ~[]byte](name T) bool {
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			// The bit 0x20 turns upper case into lower case.
			if c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9' {
				i++
				continue
			}
			return false
		}
		// At most one character is converted, so the conversion does not allocate for a slice of bytes.
		r, n := utf8.DecodeRuneInString(string(name[i:min(i+utf8.UTFMax, len(name))]))
		// A letter number, such as a Roman numeral, counts as a letter.
		letter := unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		if !letter && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Cf)) {
			return false
		}
		i += n
	}
	return len(name) > 0
}

// finish converts the raw values to properties, and stores all names and keys in one string. The number of properties
// is checked while they are converted, the size of the entity afterwards. After it, the entity does not refer to the
// decoder.
func (d *decoder) finish() (keys Keys, err error) {
	size := len(d.system[partitionKey].Bytes) + len(d.system[rowKey].Bytes)
	for i := range d.properties {
		size += len(d.nameOf(&d.properties[i]))
	}
	var texts strings.Builder // does not reallocate, because its capacity suffices
	texts.Grow(size)
	if keys, err = d.keys(&texts); err != nil {
		return 0, err
	}
	kept := 0
	for i := range d.properties {
		p := &d.properties[i]
		r := (*raw)(&p.Value)
		// The service stores no nulls, so they are dropped here.
		if r.kind() == null {
			continue
		}
		if kept == d.limits.Properties {
			return 0, beyond(TooManyProperties, d.limits.Properties, properties)
		}
		// A string of the builder stays valid, because the builder never moves its bytes.
		name := texts.Len()
		texts.Write(d.nameOf(p))
		p.Name = texts.String()[name:]
		if err := r.convert(d.limits); err != nil {
			return 0, err
		}
		if kept < i { // a null precedes it
			d.properties[kept] = *p
		}
		kept++
	}
	// The list may have the memory of the previous one.
	d.into.Properties = d.properties[:kept]
	return keys, d.limits.Check(d.into)
}

// keys reads PartitionKey and RowKey into the entity. A missing or null key stays empty, and is not in the result.
// texts is large enough for both.
func (d *decoder) keys(texts *strings.Builder) (keys Keys, err error) {
	for i, key := range [...]*string{&d.into.PartitionKey, &d.into.RowKey} {
		r := &d.system[i]
		if r.kind() == null || r.kind() == absent {
			continue
		}
		switch {
		// Booleans cannot be keys.
		case r.kind() != text && r.kind() != integer && r.kind() != number:
			return 0, errBody()
		// Numbers are accepted with the text that the client wrote; Need refuses them in an insert.
		case r.kind() != text, r.Type != 0 && r.Type != String: // its text is compared with the key in the URL
			keys |= HasTypedKey
		}
		start := texts.Len()
		texts.Write(r.Bytes)
		*key = texts.String()[start:]
		if err := d.limits.CheckKey(*key); err != nil {
			return 0, err
		}
		keys |= HasPartitionKey << i
	}
	return keys, nil
}
