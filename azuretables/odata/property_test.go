package odata

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const rounds = 3000

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func anyText(r *rand.Rand, max int) string {
	var b strings.Builder
	for range r.IntN(max + 1) {
		switch r.IntN(8) {
		case 0:
			b.WriteRune(rune(r.IntN(0x20)))
		case 1:
			b.WriteByte(`"\/'&+%`[r.IntN(7)])
		case 2:
			b.WriteRune(rune(0x80 + r.IntN(0xD800-0x80)))
		case 3:
			b.WriteRune(rune(0xE000 + r.IntN(0x110000-0xE000)))
		default:
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

func anyKey(r *rand.Rand) string {
	l := DefaultLimits()
	for {
		if key := anyText(r, 12); l.CheckKey(key) == nil {
			return key
		}
	}
}

func anyName(r *rand.Rand, i int) string {
	const first = "abcXYZ_éΩ啊"
	return string([]rune(first)[r.IntN(10)]) + "p" + strconv.Itoa(i)
}

func anyValue(r *rand.Rand) Value {
	v := Value{Type: Type(1 + r.IntN(8))}
	switch v.Type {
	case String:
		v.Bytes = []byte(anyText(r, 30))
	case Binary:
		v.Bytes = []byte(anyText(r, 30))
	case GUID:
		v.Bytes = make([]byte, 16)
		for i := range v.Bytes {
			v.Bytes[i] = byte(r.Uint32())
		}
	case Boolean:
		v.Int = int64(r.IntN(2))
	case DateTime:
		v.Int = MinDateTime + r.Int64N(MaxDateTime-MinDateTime+1)
		if r.IntN(2) == 0 {
			v.Int -= v.Int % ticksPerSecond
		}
	case Double:
		v.Float = anyDouble(r)
	case Int32:
		v.Int = int64(int32(r.Uint32()))
	case Int64:
		v.Int = int64(r.Uint64()) >> r.IntN(64)
	}
	return v
}

func anyDouble(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return float64(r.IntN(2000) - 1000)
	case 1:
		return float64(r.IntN(200000)-100000) / 1000
	case 2:
		return []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64,
			5e-324, 1e15, 1e14, 999999999999999, 1e-4, 1e-5, 123456789.125}[r.IntN(13)]
	}
	return math.Float64frombits(r.Uint64())
}

func anyEntity(r *rand.Rand) Entity {
	e := Entity{PartitionKey: anyKey(r), RowKey: anyKey(r), Timestamp: MinDateTime + r.Int64N(MaxDateTime-MinDateTime)}
	for i := range r.IntN(12) {
		e.Properties = append(e.Properties, Property{Name: anyName(r, i), Value: anyValue(r)})
	}
	return e
}

// same compares values; NaN equals itself, -0 differs from 0.
func same(v, w *Value) bool {
	return v.Type == w.Type && bytes.Equal(v.Bytes, w.Bytes) && v.Int == w.Int &&
		(v.isNaN() && w.isNaN() || math.Float64bits(v.Float) == math.Float64bits(w.Float))
}

func sameEntity(t *testing.T, got, want *Entity, text string) {
	t.Helper()
	if got.PartitionKey != want.PartitionKey || got.RowKey != want.RowKey ||
		len(got.Properties) != len(want.Properties) {
		t.Fatalf("%s\ngave %+v\nwant %+v", text, got, want)
	}
	for i := range want.Properties {
		p, q := &got.Properties[i], &want.Properties[i]
		if p.Name != q.Name || !same(&p.Value, &q.Value) {
			t.Fatalf("%s\ngave %+v\nwant %+v", text, p, q)
		}
	}
}

func TestEntityJSONRoundTrip(t *testing.T) {
	r, l := seeded(t), DefaultLimits()
	var back Entity
	for range rounds {
		e := anyEntity(r)
		for _, level := range []Metadata{MinimalMetadata, FullMetadata} {
			c := Context{Root: "http://h:1/acc", Account: "acc", Table: "tab", Level: level}
			text := c.AppendEntity(nil, &e)
			if !json.Valid(text) || !isASCII(text) {
				t.Fatalf("no JSON in ASCII: %s", text)
			}
			keys, err := DecodeEntity(bytes.Clone(text), &l, &back)
			if err != nil || keys != HasBoth {
				t.Fatalf("%v: %s", err, text)
			}
			sameEntity(t, &back, &e, string(text))
		}
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// TestWithoutMetadataTypesAreInferred checks that without metadata only JSON's own types survive.
func TestWithoutMetadataTypesAreInferred(t *testing.T) {
	r, l := seeded(t), DefaultLimits()
	for range rounds {
		e := anyEntity(r)
		for i := range e.Properties {
			for v := &e.Properties[i].Value; v.annotated(); {
				*v = anyValue(r)
			}
		}
		text := (&Context{Level: NoMetadata}).AppendEntity(nil, &e)
		if strings.Contains(string(text), "odata.") {
			t.Fatalf("metadata in %s", text)
		}
		var back Entity
		if _, err := DecodeEntity(bytes.Clone(text), &l, &back); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		sameEntity(t, &back, &e, string(text))
	}
}

func TestSelectedPropertiesComeInAnswer(t *testing.T) {
	r, l := seeded(t), DefaultLimits()
	for range rounds {
		e := anyEntity(r)
		text := "nowhere, RowKey"
		for i := range e.Properties {
			if i%2 == 0 {
				text += "," + e.Properties[i].Name
			}
		}
		names, err := ParseSelect(text, &l)
		if err != nil {
			t.Fatal(err)
		}
		c := Context{Root: "http://h", Table: "tab", Select: names, SelectText: text}
		var got map[string]any
		answer := c.AppendEntity(nil, &e)
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if v, there := got["nowhere"]; !there || v != nil {
			t.Fatalf("no null: %s", answer)
		}
		if _, there := got["PartitionKey"]; there || got["RowKey"] != e.RowKey {
			t.Fatalf("keys: %s", answer)
		}
		for i := range e.Properties {
			if _, there := got[e.Properties[i].Name]; there != (i%2 == 0) {
				t.Fatalf("%s: %s", e.Properties[i].Name, answer)
			}
		}
	}
}

func anyFilter(r *rand.Rand, depth int) Expr {
	if depth == 0 || r.IntN(3) == 0 {
		if r.IntN(10) == 0 {
			return &Constant{True: r.IntN(2) == 0}
		}
		c := &Comparison{Property: anyName(r, r.IntN(4)), Op: Op(1 + r.IntN(8)), Value: anyValue(r)}
		if c.Op >= StartsWith {
			c.Value = Value{Type: String, Bytes: []byte(anyText(r, 5))}
		}
		if r.IntN(5) == 0 {
			c.Property = []string{"PartitionKey", "RowKey", "Timestamp", "eq", "not_", "or"}[r.IntN(6)]
		}
		return c
	}
	switch r.IntN(3) {
	case 0:
		return &And{anyFilter(r, depth-1), anyFilter(r, depth-1)}
	case 1:
		return &Or{anyFilter(r, depth-1), anyFilter(r, depth-1)}
	}
	return &Not{anyFilter(r, depth-1)}
}

func TestFilterTextRoundTrip(t *testing.T) {
	r := seeded(t)
	l := DefaultLimits()
	l.Comparisons = 1000
	for range rounds {
		x := anyFilter(r, 5)
		text := string(AppendFilter(nil, x))
		back, err := ParseFilter(text, &l)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if again := string(AppendFilter(nil, back)); again != text {
			t.Fatalf("%s\ncame back as\n%s", text, again)
		}
		if !strings.Contains(text, "NaN") && !equalExpr(x, back) {
			t.Fatalf("%s: %#v", text, back)
		}
	}
}

// equalExpr is like DeepEqual, but does not distinguish nil from empty bytes.
func equalExpr(x, y Expr) bool {
	switch x := x.(type) {
	case *Comparison:
		y, ok := y.(*Comparison)
		return ok && x.Property == y.Property && x.Op == y.Op && same(&x.Value, &y.Value)
	case *And:
		y, ok := y.(*And)
		return ok && equalExpr(x.Left, y.Left) && equalExpr(x.Right, y.Right)
	case *Or:
		y, ok := y.(*Or)
		return ok && equalExpr(x.Left, y.Left) && equalExpr(x.Right, y.Right)
	case *Not:
		y, ok := y.(*Not)
		return ok && equalExpr(x.X, y.X)
	}
	return reflect.DeepEqual(x, y)
}

// TestPropertyEqualsItself compares a property with its own value: eq, ge and le are true, the others false. Every
// comparison with a missing property is false, and its negation true.
func TestPropertyEqualsItself(t *testing.T) {
	r := seeded(t)
	for range rounds {
		v := anyValue(r)
		if v.isNaN() {
			continue
		}
		e := Entity{Properties: []Property{{Name: "p", Value: v}}}
		for op := Eq; op <= Le; op++ {
			want := op == Eq || op == Ge || op == Le
			if Matches(&Comparison{"p", op, v}, &e) != want {
				t.Fatalf("%s %s itself is not %v", v.AppendLiteral(nil), op, want)
			}
			missing := &Comparison{"q", op, v}
			if Matches(missing, &e) || !Matches(&Not{missing}, &e) {
				t.Fatalf("missing %s", op)
			}
		}
	}
}

// exact returns a number without rounding.
func exact(v *Value) *big.Float {
	if v.Type == Double {
		return new(big.Float).SetFloat64(v.Float)
	}
	return new(big.Float).SetInt64(v.Int)
}

func TestNumbersCompareExactly(t *testing.T) {
	r := seeded(t)
	number := func() Value {
		for {
			v := anyValue(r)
			if r.IntN(3) == 0 { // around the precision limit of float64
				n := int64(1)<<r.IntN(63) + int64(r.IntN(3)-1)
				v = Value{Type: Int64, Int: n}
				if r.IntN(2) == 0 {
					v = Value{Type: Double, Float: float64(n)}
				}
			}
			if v.number() && !v.isNaN() {
				return v
			}
		}
	}
	for range 10 * rounds {
		v, w := number(), number()
		order, ok := v.compare(&w)
		if want := exact(&v).Cmp(exact(&w)); !ok || order != want {
			t.Fatalf("%s and %s: %d, want %d", v.AppendLiteral(nil), w.AppendLiteral(nil), order, want)
		}
	}
}

func TestKeysComeBackFromURLs(t *testing.T) {
	r := seeded(t)
	for range rounds {
		p, k := anyKey(r), anyKey(r)
		link := string(AppendLink(nil, "tab", p, k))
		if u, err := url.Parse("http://h/" + link); err != nil || u.RawQuery != "" {
			t.Fatalf("%v: %s", err, link)
		}
		for _, form := range []struct{ path, account string }{{"/acc/" + link, ""}, {"/" + link, "acc"}} {
			got, err := ParsePath(form.path, form.account)
			want := Path{Account: "acc", Resource: OneEntity, Table: "tab", PartitionKey: p, RowKey: k}
			if err != nil || got != want {
				t.Fatalf("%s: %v %+v, want %+v", link, err, got, want)
			}
		}
		got, query, err := ParseBatchURL("http://127.0.0.1:10002/acc/" + link + "?timeout=3")
		if err != nil || got.PartitionKey != p || got.RowKey != k || query != "timeout=3" {
			t.Fatalf("%s: %v %+v", link, err, got)
		}
	}
}

func TestTimesAreThoseOfTheCalendar(t *testing.T) {
	r := seeded(t)
	for range rounds {
		ticks := int64(year1) + r.Int64N(MaxDateTime-year1+1)
		if r.IntN(2) == 0 {
			ticks -= ticks % ticksPerSecond
		}
		text := AppendDateTime(nil, ticks)
		var c second
		c.append(nil, ticks/ticksPerSecond*ticksPerSecond)
		if got := c.append(nil, ticks); string(got) != string(text) {
			t.Fatalf("%d: %s after another of the same second, %s alone", ticks, got, text)
		}
		want := time.Unix(ticks/ticksPerSecond, ticks%ticksPerSecond*100).UTC()
		if s := want.Format("2006-01-02T15:04:05.9999999Z"); s != string(text) {
			t.Fatalf("%d: %s, want %s", ticks, text, s)
		}
		if ticksOf(want) != ticks {
			t.Fatalf("%s: %d ticks, want %d", text, ticksOf(want), ticks)
		}
		if back, ok := ParseDateTime(text); !ok || back != ticks {
			t.Fatalf("%s was parsed as %d, want %d", text, back, ticks)
		}
		zoned := want.In(time.FixedZone("", (r.IntN(27*60)-13*60)*60)).Format("2006-01-02T15:04:05.9999999Z07:00")
		if back, ok := ParseDateTime([]byte(zoned)); want.Year() > 1 && want.Year() < 9999 && (!ok || back != ticks) {
			t.Fatalf("%s was parsed as %d, want %d", zoned, back, ticks)
		}
		tag := string(AppendETag(nil, ticks))
		if back, any, err := ParseETag(tag); err != nil || any || back != ticks {
			t.Fatalf("%s: %v", tag, err)
		}
	}
}

// TestETagsOfDistantTimestampsAreExact reads ETags of Timestamps outside the years 1 to 9999 back, from the header and
// from the body. A DateTime would be the nearest one in the range, which no conditional change could match.
func TestETagsOfDistantTimestampsAreExact(t *testing.T) {
	context := Context{Level: MinimalMetadata}
	for _, ticks := range []int64{MaxDateTime, MaxDateTime + 1, MaxDateTime + 10, math.MaxInt64, year1, year1 - 1,
		math.MinInt64 + 1} {
		tag := string(AppendETag(nil, ticks))
		if back, any, err := ParseETag(tag); err != nil || any || back != ticks {
			t.Errorf("%s of %d was parsed as %d, %v", tag, ticks, back, err)
		}
		body := string(context.appendBody(nil, &Entity{PartitionKey: "p", RowKey: "r", Timestamp: ticks}))
		if want := `"odata.etag":` + strconv.Quote(tag); !strings.HasPrefix(body, want) {
			t.Errorf("%d: the body is %s, want %s", ticks, body, want)
		}
	}
	for _, tag := range []string{`W/"ticks'5'"`, `W/"ticks''"`, `W/"ticks'9223372036854775808'"`, `W/"ticks'x'"`} {
		if ticks, any, err := ParseETag(tag); err != nil || any || ticks != NoTicks {
			t.Errorf("%s: %d, %v", tag, ticks, err)
		}
	}
}

func TestDoublesAreReadAsStrconvDoes(t *testing.T) {
	r := seeded(t)
	for range 10 * rounds {
		text := strconv.Itoa(r.IntN(1 << r.IntN(60)))
		if r.IntN(4) > 0 {
			text += "." + strings.Repeat("0", r.IntN(5)) + strconv.Itoa(r.IntN(1<<r.IntN(40)))
		}
		if r.IntN(4) == 0 {
			text = "-" + text
		}
		if r.IntN(4) == 0 {
			text += "e" + strconv.Itoa(r.IntN(40)-20)
		}
		want, err := strconv.ParseFloat(text, 64)
		if got, ok := parseDouble(text); err != nil || !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s is %v, want %v", text, got, want)
		}
	}
}

func TestPlainTextIsFoundEightBytesAtATime(t *testing.T) {
	r := seeded(t)
	for range 10 * rounds {
		b := bytes.Repeat([]byte{'a'}, r.IntN(120))
		for range r.IntN(3) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = byte(r.IntN(256))
			}
		}
		want := 0
		for want < len(b) && b[want] >= 0x20 && b[want] < utf8.RuneSelf && b[want] != '"' && b[want] != '\\' {
			want++
		}
		if got := plainLen(b); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
		if got := allPlain(b); got != (want == len(b)) {
			t.Fatalf("%q: all plain: %v", b, got)
		}
	}
}

// ticksOf returns a time in ticks, rounded down.
func ticksOf(t time.Time) int64 { return t.Unix()*ticksPerSecond + int64(t.Nanosecond()/100) }
