package types

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// marshalPackage is the Java package of Cassandra's type classes. Drivers know custom types by these names. Class
// names may omit it.
const marshalPackage = "org.apache.cassandra.db.marshal."

// TypeError means that a text is not the name of a type. Reason is the whole message.
type TypeError struct {
	Text   string // the whole text
	Reason string
}

// Error returns Reason.
func (e *TypeError) Error() string { return e.Reason }

// nestingMax bounds the nesting of types, and of JSON, so that a text cannot exhaust the stack.
const nestingMax = 400

// nativeClass returns the class of a native type without its package, or "" for other kinds.
func nativeClass(k Kind) string {
	// The names are Cassandra's and drivers'; some differ from the names in CQL, for example LongType for bigint.
	switch k {
	case Ascii:
		return "AsciiType"
	case Bigint:
		return "LongType"
	case Blob:
		return "BytesType"
	case Boolean:
		return "BooleanType"
	case Counter:
		return "CounterColumnType"
	case Date:
		return "SimpleDateType"
	case Decimal:
		return "DecimalType"
	case Double:
		return "DoubleType"
	case Duration:
		return "DurationType"
	case Float:
		return "FloatType"
	case Inet:
		return "InetAddressType"
	case Int:
		return "Int32Type"
	case Smallint:
		return "ShortType"
	case Text:
		return "UTF8Type"
	case Time:
		return "TimeType"
	case Timestamp:
		return "TimestampType"
	case Timeuuid:
		return "TimeUUIDType"
	case Tinyint:
		return "ByteType"
	case UUID:
		return "UUIDType"
	case Varint:
		return "IntegerType"
	}
	return ""
}

// MarshalClass returns the type's Java class, as Cassandra uses it internally, and as clients see it if the native
// protocol has no id for the type: "org.apache.cassandra.db.marshal.VectorType(….FloatType , 3)". Names of types and
// fields are hexadecimal in it. Without their package:
//
//	list<int>                   ListType(Int32Type)
//	frozen<list<int>>           FrozenType(ListType(Int32Type))
//	frozen<tuple<int, text>>    TupleType(Int32Type,UTF8Type)
//	vector<float, 3>            VectorType(FloatType , 3)
//	ks.t with the field f int   UserType(ks,74,66:Int32Type)
func (t *Type) MarshalClass() string {
	var b strings.Builder
	writeClass(t, &b, false, false)
	return b.String()
}

// DeclaredClass is MarshalClass with FrozenType in vectors within frozen types, where Cassandra omits it.
// ParseDeclaredClass parses it back to the declared type. The stored schema uses it.
func (t *Type) DeclaredClass() string {
	var b strings.Builder
	writeClass(t, &b, false, true)
	return b.String()
}

// writeClass writes FrozenType once, around the outermost frozen part, and, if declared is true, again in vectors.
// inFrozen means that an outer part is frozen.
func writeClass(t *Type, b *strings.Builder, inFrozen, declared bool) {
	// Tuples and vectors are always frozen and have no FrozenType.
	wrap := t.frozen && !inFrozen && (t.kind.IsCollection() || t.kind == UDT)
	if wrap {
		b.WriteString(marshalPackage + "FrozenType(")
	}
	// Tuples freeze their parts without the word.
	inner := inFrozen || wrap || t.kind == Tuple
	switch t.kind {
	case List, Set, Map, Tuple:
		b.WriteString(marshalPackage + partsClass(t.kind) + "(")
		for i, e := range t.elems {
			if i > 0 {
				b.WriteByte(',')
			}
			writeClass(e, b, inner, declared)
		}
		b.WriteByte(')')
	case Vector:
		b.WriteString(marshalPackage + "VectorType(")
		writeClass(t.elems[0], b, inner && !declared, declared)
		// The spaces are Cassandra's.
		b.WriteString(" , " + strconv.Itoa(t.dims) + ")")
	// Keyspaces contain only word characters. Names of types and fields may contain anything, so they are hexadecimal.
	case UDT:
		b.WriteString(marshalPackage + "UserType(" + t.keyspace + "," + hex.EncodeToString([]byte(t.name)))
		for i, e := range t.elems {
			b.WriteString("," + hex.EncodeToString([]byte(t.fields[i])) + ":")
			writeClass(e, b, inner, declared)
		}
		b.WriteByte(')')
	// As it was written, with or without a package.
	case Custom:
		b.WriteString(t.class)
	default:
		b.WriteString(marshalPackage + nativeClass(t.kind))
	}
	if wrap {
		b.WriteByte(')')
	}
}

// partsClass returns the class of a collection or tuple without its package.
func partsClass(k Kind) string {
	switch k {
	case List:
		return "ListType"
	case Set:
		return "SetType"
	case Map:
		return "MapType"
	}
	return "TupleType"
}

// ParseClass parses a class name in a statement, with or without the package name. Types in vectors become frozen, as
// in Cassandra. ReversedType is replaced by the type that it reverses. A class that is not one of CQL's types becomes a
// Custom type. The error is a *TypeError. Nesting is bounded by nestingMax.
func ParseClass(class string) (*Type, error) {
	return parseClass(&classParser{text: class, freeze: true})
}

// ParseDeclaredClass parses the output of DeclaredClass. Unlike in ParseClass, types in vectors remain as they were
// declared. Frozen types are in FrozenType.
func ParseDeclaredClass(class string) (*Type, error) { return parseClass(&classParser{text: class}) }

// parseClass parses the whole text.
func parseClass(p *classParser) (*Type, error) {
	t := p.parse(0)
	p.space()
	if p.err == nil && p.at < len(p.text) {
		p.fail("unexpected %q at %d", p.text[p.at:], p.at)
	}
	if p.err != nil {
		return nil, p.err
	}
	return t, nil
}

// classParser parses one class name. The first error is sticky.
type classParser struct {
	// The whole text, also for the messages. at is the position in it.
	text   string
	freeze bool // freeze types in vectors
	at     int
	err    error
}

// fail keeps the first error, and ends the text so that all loops end.
func (p *classParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &TypeError{Text: p.text,
			Reason: fmt.Sprintf("Error parsing type class '%s': %s", p.text, fmt.Sprintf(format, args...))}
	}
	p.at = len(p.text)
}

// space skips white space.
func (p *classParser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t' || p.text[p.at] == '\n') {
		p.at++
	}
}

// next consumes c, after optional space, if it is next.
func (p *classParser) next(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// expect consumes c, or fails.
func (p *classParser) expect(c byte) {
	if !p.next(c) {
		p.fail("expected '%c' at %d", c, p.at)
	}
}

// word consumes the characters of a name or number, after optional space. It may be empty.
func (p *classParser) word() string {
	p.space()
	start := p.at
	for p.at < len(p.text) {
		// The characters of Java names and packages, and of hexadecimal and decimal numbers.
		c := p.text[p.at]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("._-+&$", c) >= 0 {
			p.at++
			continue
		}
		break
	}
	return p.text[start:p.at]
}

// parse parses a class with its parameters. After a failure it returns some type, never nil.
func (p *classParser) parse(depth int) *Type {
	if depth > nestingMax {
		p.fail("types nested deeper than %d", nestingMax)
		return Native(Blob)
	}
	p.space()
	start := p.at
	// Kept for classes that are not known: start is where their text begins.
	name := p.word()
	if name == "" {
		p.fail("expected a class name at %d", p.at)
		return Native(Blob)
	}
	short := strings.TrimPrefix(name, marshalPackage)
	// Classes of Cassandra are known with and without their package.
	switch short {
	case frozenClass, reversedClass:
		p.expect('(')
		t := p.parse(depth + 1)
		p.expect(')')
		if short == frozenClass {
			// Drop ReversedType here; component handles it for components.
			return t.Freeze()
		}
		return t
	case compositeClass:
		return p.composite(depth)
	case dynamicCompositeClass:
		return p.dynamicComposite(depth)
	case lexicalUUIDClass:
		p.skipParameters()
		return newLegacy(lexicalUUIDClass, &legacyType{kind: lexicalUUID})
	case "ListType", "SetType", "MapType", "TupleType", "VectorType":
		return p.parts(short, depth)
	case "UserType":
		return p.userType(depth)
	case emptyClass:
		p.skipParameters()
		return Empty()
	case "DateType":
		return Native(Timestamp) // its class before Cassandra 1.2
	case "LegacyTimeUUIDType":
		return Native(Timeuuid)
	}
	// Native types have no parameters; ones that are there are skipped.
	for k := Ascii; k <= Varint; k++ {
		if nativeClass(k) == short {
			p.skipParameters()
			return Native(k)
		}
	}
	// The text of the class with its parameters becomes the name of the type.
	p.skipParameters()
	return NewCustom(p.text[start:p.at])
}

// parts parses the parameters of a collection, tuple or vector.
func (p *classParser) parts(short string, depth int) *Type {
	p.expect('(')
	var elems []*Type
	dims := 0
	for p.err == nil {
		// The second parameter of a vector is a number.
		if short == "VectorType" && len(elems) == 1 {
			n, err := strconv.Atoi(p.word())
			if err != nil || n < 1 {
				p.fail("expected a positive number of dimensions at %d", p.at)
			}
			dims = n
		} else {
			elems = append(elems, p.parse(depth+1))
		}
		if !p.next(',') {
			break
		}
	}
	p.expect(')')
	want := 1
	switch {
	case short == "MapType":
		want = 2
	case short == "TupleType":
		// A tuple has any number of types but zero.
		want = max(len(elems), 1)
	case short == "VectorType" && dims == 0:
		p.fail("a vector needs its dimensions")
	}
	// Checked in any case, so that elems[0] and elems[1] exist below.
	if len(elems) != want {
		p.fail("%s takes %d types, not %d", short, want, len(elems))
	}
	if p.err != nil {
		return Native(Blob)
	}
	switch short {
	case "ListType":
		return NewList(elems[0], false)
	case "SetType":
		return NewSet(elems[0], false)
	case "MapType":
		return NewMap(elems[0], elems[1], false)
	case "TupleType":
		return NewTuple(elems...)
	}
	// Types in vectors are frozen, but for the schema's own encoding.
	if p.freeze {
		elems[0] = elems[0].Freeze()
	}
	return NewVector(elems[0], dims)
}

// userType parses the keyspace, and the name and fields in hexadecimal. The type contains its definition: no schema is
// needed.
func (p *classParser) userType(depth int) *Type {
	p.expect('(')
	keyspace := p.word()
	p.expect(',')
	name := p.hexWord()
	var fields []string
	var elems []*Type
	// A type without fields is valid here.
	for p.err == nil && p.next(',') {
		fields = append(fields, p.hexWord())
		p.expect(':')
		elems = append(elems, p.parse(depth+1))
	}
	p.expect(')')
	return NewUDT(keyspace, name, fields, elems, false)
}

// hexWord consumes a name in hexadecimal: its UTF-8 bytes.
func (p *classParser) hexWord() string {
	w := p.word()
	b, err := hex.DecodeString(w)
	if err != nil {
		p.fail("%q is not the hexadecimal form of a name", w)
	}
	return string(b)
}

// component parses the class of a component. ReversedType reverses its order, and a second one restores it. Only the
// outermost class may be ReversedType: parse drops others.
func (p *classParser) component(depth int) component {
	p.space()
	at := p.at
	// parse would drop ReversedType, which is right for columns: their order is in the schema.
	if strings.TrimPrefix(p.word(), marshalPackage) == reversedClass && p.next('(') {
		c := component{t: Native(Blob)}
		if depth > nestingMax {
			p.fail("types nested deeper than %d", nestingMax)
			return c
		}
		c = p.component(depth + 1)
		p.expect(')')
		c.reversed = !c.reversed
		return c
	}
	// Not reversed: the word is read again.
	p.at = at
	return component{t: p.parse(depth + 1)}
}

// composite parses the parameters of CompositeType.
func (p *classParser) composite(depth int) *Type {
	p.expect('(')
	var components []component
	// At least one component: without any, component fails.
	for p.err == nil {
		components = append(components, p.component(depth))
		if !p.next(',') {
			break
		}
	}
	p.expect(')')
	if p.err != nil {
		return Native(Blob)
	}
	return newComposite(components)
}

// dynamicComposite parses aliases: (a=>Int32Type, b=>UTF8Type). Without parentheses there are none. An alias is one
// character.
func (p *classParser) dynamicComposite(depth int) *Type {
	aliases := map[byte]component{}
	if p.next('(') && !p.next(')') {
		for p.err == nil {
			name := p.word()
			p.expect('=')
			p.expect('>')
			if len(name) != 1 {
				p.fail("an alias must be a single character, not %q", name)
				break
			}
			// Of an alias that is given twice, the last class counts.
			aliases[name[0]] = p.component(depth)
			if !p.next(',') {
				break
			}
		}
		p.expect(')')
	}
	if p.err != nil {
		return Native(Blob)
	}
	return newDynamicComposite(aliases)
}

// skipParameters skips the balanced parameters of an unknown class, if it has any. They are not interpreted.
func (p *classParser) skipParameters() {
	if p.at >= len(p.text) || p.text[p.at] != '(' {
		return
	}
	// Quotes have no meaning in class names, so counting parentheses is enough.
	for open := 0; p.at < len(p.text); {
		switch p.text[p.at] {
		case '(':
			open++
		case ')':
			open--
		}
		p.at++
		if open == 0 {
			return
		}
	}
	// The text ended first.
	p.fail("a parenthesis is not closed")
}
