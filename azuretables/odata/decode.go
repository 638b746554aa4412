package odata

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys says which of an entity's keys a body has.
type Keys uint8

// The keys.
const (
	HasPartitionKey Keys = 1 << iota
	HasRowKey
	// HasTypedKey marks a body with a key that is a number or annotated with another type than Edm.String.
	HasTypedKey
	HasBoth = HasPartitionKey | HasRowKey
)

// Need returns the error unless k has both keys, as strings, which an insert needs: PropertiesNeedValue, InvalidInput.
func (k Keys) Need() error {
	if k&HasTypedKey != 0 {
		return errBody()
	}
	if k != HasBoth {
		return newError(PropertiesNeedValue)
	}
	return nil
}

// DecodeEntity reads an entity's JSON into an Entity, whose Properties are used again; Timestamp becomes 0.
// It owns body from now on: strings are unescaped in it, and the Bytes of the values lie in it. A property
// whose value is null, annotations (odata.…), and a Timestamp are left out. Annotations of a property's
// type may stand before or behind it. The error is an *Error with the service's code; into is then worth
// nothing. All names and keys are one allocation.
func DecodeEntity(body []byte, l *Limits, into *Entity) (Keys, error) {
	*into = Entity{Properties: into.Properties[:0]}
	d := decoder{cursor: cursor{body: body}, limits: l, into: into, properties: into.Properties}
	if err := d.object(); err != nil {
		return 0, err
	}
	return d.finish()
}

// kind is a JSON value's.
type kind uint8

const (
	absent kind = iota // only annotated so far
	null
	text
	integer
	number
	yes
	no
)

// raw is what came for a name. It stands in the property's Value until all is read, since an annotation may
// come behind: Type is the annotated one or zero, Bytes the text of a string or number, and Int says the
// kind (8 bits), the length of the name (24 bits), and where in body it is.
type raw Value

func (r *raw) kind() kind     { return kind(r.Int) }
func (r *raw) setKind(k kind) { r.Int = r.Int&^0xFF | int64(k) }

// system are the three names that are no properties.
type system uint8

const (
	partitionKey system = iota
	rowKey
	timestamp
)

// few is enough of an index for an entity of up to 96 properties.
const few = 128

// decoder puts properties into properties as they come. Nothing in it points to itself, so that it
// stays on the stack.
type decoder struct {
	cursor
	limits     *Limits
	into       *Entity
	properties []Property
	system     [3]raw // by system

	// An index of names: hash → index into Properties, plus 1; zero is free.
	index [few]uint16
	many  []uint16 // takes over when index is too full
}

func (d *decoder) object() error {
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
	if d.peek() != 0 || d.pos != len(d.body) {
		return errBody()
	}
	return nil
}

func (d *decoder) member() error {
	name := d.text()
	if d.bad || !d.take(':') {
		return errBody()
	}
	if at := bytes.IndexByte(name, '@'); at >= 0 {
		return d.annotation(name[:at], name[at+1:])
	}
	if bytes.HasPrefix(name, []byte("odata.")) {
		d.skip(0)
		return d.unlessBad()
	}
	r, err := d.named(name)
	if err != nil {
		return err
	}
	if r.kind() != absent {
		return errBody() // twice
	}
	d.value(r)
	return d.unlessBad()
}

func (d *decoder) unlessBad() error {
	if d.bad {
		return errBody()
	}
	return nil
}

func (d *decoder) annotation(name, what []byte) error {
	if len(name) == 0 || string(what) != "odata.type" {
		d.skip(0)
		return d.unlessBad()
	}
	r, err := d.named(name)
	if err != nil {
		return err
	}
	t := typeOf(d.text())
	if d.bad || t == 0 || r.Type != 0 {
		return errBody()
	}
	r.Type = t
	return nil
}

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

// value reads a property's value as it stands; what it means is known when all annotations are.
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
	default:
		whole := false
		r.setKind(number)
		if r.Bytes, whole = d.number(); whole {
			r.setKind(integer)
		}
	}
}

// named is what came for the name that text has just read, or for its beginning: a new property when it is
// seen for the first time.
func (d *decoder) named(name []byte) (*raw, error) {
	switch string(name) {
	case "PartitionKey":
		return &d.system[partitionKey], nil
	case "RowKey":
		return &d.system[rowKey], nil
	case "Timestamp":
		return &d.system[timestamp], nil
	}
	ps := d.properties
	if n := len(ps); n > 0 && string(d.nameOf(&ps[n-1])) == string(name) {
		return (*raw)(&ps[n-1].Value), nil
	}
	if 4*len(ps) >= 3*len(d.table()) {
		d.grow()
	}
	at := d.find(name)
	if i := d.table()[at]; i != 0 {
		return (*raw)(&ps[i-1].Value), nil
	}
	if err := d.limits.checkName(name); err != nil {
		return nil, err
	}
	// Nulls are no properties, but so many names are no entity.
	if len(ps) >= 2*d.limits.Properties || len(ps) >= 1<<16-2 {
		return nil, beyond(TooManyProperties, d.limits.Properties, properties)
	}
	if len(ps) < cap(ps) {
		d.properties = ps[:len(ps)+1]
	} else {
		d.properties = append(ps, Property{})
	}
	d.table()[at] = uint16(len(ps) + 1)
	p := &d.properties[len(ps)]
	p.Name, p.Value = "", Value{Int: int64(d.start)<<32 | int64(len(name))<<8}
	return (*raw)(&p.Value), nil
}

// nameOf is the name of a property that has none yet: it is in the body.
func (d *decoder) nameOf(p *Property) []byte {
	start, size := p.Value.Int>>32, p.Value.Int>>8&0xFFFFFF
	return d.body[start : start+size]
}

func (d *decoder) table() []uint16 {
	if d.many != nil {
		return d.many
	}
	return d.index[:]
}

// find is where in the table the name is or would be (open addressing).
func (d *decoder) find(name []byte) uint32 {
	table := d.table()
	mask := uint32(len(table) - 1)
	for h := hash(name); ; h++ {
		i := table[h&mask]
		if i == 0 || string(d.nameOf(&d.properties[i-1])) == string(name) {
			return h & mask
		}
	}
}

// hash is of a name's first and last eight bytes and its length. Names made to collide cost no more than
// looking through all of them, which Limits.Properties bounds.
func hash(name []byte) uint32 {
	h := uint64(len(name))
	if n := len(name); n >= 8 {
		h += binary.LittleEndian.Uint64(name) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(name[n-8:]), 23)
	} else {
		for _, c := range name {
			h = h<<8 | uint64(c)
		}
	}
	return uint32(h * 0x9E3779B97F4A7C15 >> 32)
}

func (d *decoder) grow() {
	d.many = make([]uint16, 4*len(d.table()))
	for i := range d.properties {
		d.many[d.find(d.nameOf(&d.properties[i]))] = uint16(i + 1)
	}
}

// checkName says whether a property can have that name: an identifier of C# of at most NameChars.
func (l *Limits) checkName(name []byte) error {
	if len(name) > l.NameChars && utf16LenBytes(name) > l.NameChars {
		return beyond(PropertyNameTooLong, l.NameChars, nameChars)
	}
	if !identifier(name) {
		return newError(PropertyNameInvalid)
	}
	return nil
}

// identifier says whether a name is a letter or _, and then letters, digits, and what Unicode counts as
// joining or formatting (C# specification, "Identifiers").
func identifier[T ~string | ~[]byte](name T) bool {
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			if c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9' {
				i++
				continue
			}
			return false
		}
		r, n := utf8.DecodeRuneInString(string(name[i:min(i+utf8.UTFMax, len(name))]))
		letter := unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		if !letter && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Cf)) {
			return false
		}
		i += n
	}
	return len(name) > 0
}

// finish makes properties of what came, and one text of all names and keys.
func (d *decoder) finish() (keys Keys, err error) {
	size := len(d.system[partitionKey].Bytes) + len(d.system[rowKey].Bytes)
	for i := range d.properties {
		size += len(d.nameOf(&d.properties[i]))
	}
	var texts strings.Builder // its bytes do not move, since there is room for all
	texts.Grow(size)
	if keys, err = d.keys(&texts); err != nil {
		return 0, err
	}
	kept := 0
	for i := range d.properties {
		p := &d.properties[i]
		r := (*raw)(&p.Value)
		if r.kind() == null {
			continue
		}
		if kept == d.limits.Properties {
			return 0, beyond(TooManyProperties, d.limits.Properties, properties)
		}
		name := texts.Len()
		texts.Write(d.nameOf(p))
		p.Name = texts.String()[name:]
		if err := r.convert(d.limits); err != nil {
			return 0, err
		}
		if kept < i { // behind a null
			d.properties[kept] = *p
		}
		kept++
	}
	d.into.Properties = d.properties[:kept]
	return keys, d.limits.Check(d.into)
}

// keys reads PartitionKey and RowKey into the entity.
func (d *decoder) keys(texts *strings.Builder) (keys Keys, err error) {
	for i, key := range [...]*string{&d.into.PartitionKey, &d.into.RowKey} {
		r := &d.system[i]
		if r.kind() == null || r.kind() == absent {
			continue
		}
		switch {
		case r.kind() != text && r.kind() != integer && r.kind() != number:
			return 0, errBody()
		case r.kind() != text, r.Type != 0 && r.Type != String: // its text is compared with the URL's key
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
