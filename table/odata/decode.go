package odata

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Keys says which of an entity's keys a body has.
type Keys uint8

// The keys.
const (
	HasPartitionKey Keys = 1 << iota
	HasRowKey
	HasBoth = HasPartitionKey | HasRowKey
)

// Need is PropertiesNeedValue unless k has both: what an insert wants.
func (k Keys) Need() error {
	if k != HasBoth {
		return newError(PropertiesNeedValue)
	}
	return nil
}

// DecodeEntity reads an entity's JSON into an Entity, whose Properties are used again; Timestamp becomes 0.
// It owns body from now on: strings are unescaped in it, and the Bytes of the values lie in it. A property
// whose value is null, annotations (odata.…), and a Timestamp are left out. Annotations of a property's
// type may stand before or behind it. The error is an *Error with the service's code; into is then worth
// nothing.
func DecodeEntity(body []byte, l *Limits, into *Entity) (Keys, error) {
	*into = Entity{Properties: into.Properties[:0]}
	d := decoder{cursor: cursor{body: body}, limits: l, into: into}
	d.names, d.slots, d.index = d.nameSpace[:0], d.slotSpace[:0], d.indexSpace[:]
	if err := d.object(); err != nil {
		return 0, err
	}
	return d.finish()
}

// slot is a name that came, as a property or in an annotation, and what came for it.
type slot struct {
	name, nameEnd uint32 // in decoder.names
	kind          kind
	annotated     Type // zero: not
	text          []byte
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

// decoder keeps the names of all properties in one text, so that they are one allocation in the end; the
// spaces are enough for most entities, and are on the stack.
type decoder struct {
	cursor
	limits *Limits
	into   *Entity
	names  []byte
	slots  []slot
	index  []uint16 // hash of a name → its slot's index + 1; zero is free
	last   int      // the slot used last: annotations stand next to their property

	nameSpace  [512]byte
	slotSpace  [32]slot
	indexSpace [128]uint16
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
	s, err := d.slot(name)
	if err != nil {
		return err
	}
	if s.kind != absent {
		return errBody() // twice
	}
	d.value(s)
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
	s, err := d.slot(name)
	if err != nil {
		return err
	}
	t := typeOf(d.text())
	if d.bad || t == 0 || s.annotated != 0 {
		return errBody()
	}
	s.annotated = t
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
func (d *decoder) value(s *slot) {
	switch b := d.peek(); b {
	case '"':
		s.kind, s.text = text, d.text()
	case 't':
		s.kind = yes
		d.word("true")
	case 'f':
		s.kind = no
		d.word("false")
	case 'n':
		s.kind = null
		d.word("null")
	default:
		var whole bool
		s.kind = number
		if s.text, whole = d.number(); whole {
			s.kind = integer
		}
	}
}

// slot is a name's, a new one when it is seen for the first time.
func (d *decoder) slot(name []byte) (*slot, error) {
	if d.last < len(d.slots) {
		if s := &d.slots[d.last]; string(d.names[s.name:s.nameEnd]) == string(name) {
			return s, nil
		}
	}
	if 4*len(d.slots) >= 3*len(d.index) {
		d.grow()
	}
	at := d.find(name)
	if i := d.index[at]; i != 0 {
		d.last = int(i - 1)
		return &d.slots[d.last], nil
	}
	if err := d.limits.checkName(name); err != nil {
		return nil, err
	}
	// Nulls and the three names of the system are no properties, but so many names are no entity.
	if len(d.slots) >= 2*d.limits.Properties+3 || len(d.slots) >= 1<<16-2 {
		return nil, errTooManyProperties(d.limits)
	}
	start := uint32(len(d.names))
	d.names = append(d.names, name...)
	d.slots = append(d.slots, slot{name: start, nameEnd: uint32(len(d.names))})
	d.last = len(d.slots) - 1
	d.index[at] = uint16(len(d.slots))
	return &d.slots[d.last], nil
}

// find is where in index the name is or would be (FNV-1a, open addressing).
func (d *decoder) find(name []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range name {
		h = (h ^ uint32(c)) * 16777619
	}
	mask := uint32(len(d.index) - 1)
	for h ^= h >> 15; ; h++ {
		i := d.index[h&mask]
		if i == 0 {
			return h & mask
		}
		if s := &d.slots[i-1]; string(d.names[s.name:s.nameEnd]) == string(name) {
			return h & mask
		}
	}
}

func (d *decoder) grow() {
	d.index = make([]uint16, 4*len(d.index))
	for i := range d.slots {
		s := &d.slots[i]
		d.index[d.find(d.names[s.name:s.nameEnd])] = uint16(i + 1)
	}
}

// checkName says whether a property can have that name: an identifier of C# of at most NameChars.
func (l *Limits) checkName(name []byte) error {
	if len(name) > l.NameChars && utf16LenBytes(name) > l.NameChars {
		e := newError(PropertyNameTooLong)
		if l.NameChars != DefaultLimits().NameChars {
			e.Message = "The property name exceeds the maximum allowed length."
		}
		return e
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

// finish makes properties of slots.
func (d *decoder) finish() (keys Keys, err error) {
	names := string(d.names)
	for i := range d.slots {
		s := &d.slots[i]
		name := names[s.name:s.nameEnd]
		if isSystem(name) {
			k, err := d.system(name, s)
			if err != nil {
				return 0, err
			}
			keys |= k
			continue
		}
		if s.kind == absent {
			return 0, errBody() // a type of nothing
		}
		if s.kind == null {
			continue
		}
		if len(d.into.Properties) >= d.limits.Properties {
			return 0, errTooManyProperties(d.limits)
		}
		d.into.Properties = append(d.into.Properties, Property{Name: name})
		if err := d.convert(s, &d.into.Properties[len(d.into.Properties)-1].Value); err != nil {
			return 0, err
		}
	}
	return keys, d.limits.Check(d.into)
}

func (d *decoder) system(name string, s *slot) (Keys, error) {
	if name == "Timestamp" || s.kind == null || s.kind == absent {
		return 0, nil
	}
	if s.kind != text || s.annotated != 0 && s.annotated != String {
		return 0, errBody()
	}
	key := string(s.text)
	if err := d.limits.CheckKey(key); err != nil {
		return 0, err
	}
	if name == "PartitionKey" {
		d.into.PartitionKey = key
		return HasPartitionKey, nil
	}
	d.into.RowKey = key
	return HasRowKey, nil
}
