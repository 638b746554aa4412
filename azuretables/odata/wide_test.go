package odata

import (
	"fmt"
	"strings"
	"testing"
)

// wide returns an entity of n properties, whose names follow the format and whose types follow all of them.
func wide(n int, format string) string {
	var b strings.Builder
	b.WriteString(`{"PartitionKey":"p","RowKey":"r"`)
	for i := range n {
		fmt.Fprintf(&b, `,"%s":"%d"`, fmt.Sprintf(format, i), i)
	}
	for i := range n {
		fmt.Fprintf(&b, `,"%s@odata.type":"Edm.Int64"`, fmt.Sprintf(format, i))
	}
	return b.String() + "}"
}

// TestWideEntitiesAreReadCompletely uses names that differ only in the middle, for which the index's hash collides.
func TestWideEntitiesAreReadCompletely(t *testing.T) {
	for _, format := range []string{"p%d", "collision%04dcollision"} {
		for _, n := range []int{1, 95, 96, 97, 252} {
			l := DefaultLimits()
			readWide(t, n, format, &l)
		}
		l := Limits{Properties: 3000}.WithDefaults()
		readWide(t, 3000, format, &l)
	}
}

func readWide(t *testing.T, n int, format string, l *Limits) {
	t.Helper()
	var e Entity
	text := wide(n, format)
	if keys, err := DecodeEntity([]byte(text), l, &e); err != nil || keys != HasBoth || len(e.Properties) != n {
		t.Fatalf("%d of %s: %v, %d properties", n, format, err, len(e.Properties))
	}
	for i := range e.Properties {
		want := Property{Name: fmt.Sprintf(format, i), Value: Value{Type: Int64, Int: int64(i)}}
		if p := &e.Properties[i]; p.Name != want.Name || !same(&p.Value, &want.Value) {
			t.Fatalf("%+v, want %+v", p, want)
		}
	}
	twice := strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"%s":1}`, fmt.Sprintf(format, n/2))
	if _, err := DecodeEntity([]byte(twice), l, &e); err == nil || err.(*Error).Code != InvalidInput {
		t.Fatalf("%d of %s and one twice: %v", n, format, err)
	}
	if _, err := DecodeEntity([]byte(wide(l.Properties+1, format)), l, &e); err == nil ||
		err.(*Error).Code != TooManyProperties {
		t.Fatalf("one more than %d: %v", l.Properties, err)
	}
}

// TestNullsAreNoProperties checks that null values do not count as properties, but that a body with too many of them is
// refused.
func TestNullsAreNoProperties(t *testing.T) {
	l := DefaultLimits()
	nulls := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`{"a":1`)
		for i := range n {
			fmt.Fprintf(&b, `,"n%d":null`, i)
		}
		return []byte(b.String() + `,"z":2}`)
	}
	var e Entity
	if _, err := DecodeEntity(nulls(400), &l, &e); err != nil || len(e.Properties) != 2 || e.Properties[1].Name != "z" {
		t.Fatalf("%v %+v", err, e)
	}
	if _, err := DecodeEntity(nulls(600), &l, &e); err == nil || err.(*Error).Code != TooManyProperties {
		t.Fatalf("%v", err)
	}
}

func TestRaisedLimitsHold(t *testing.T) {
	l := Limits{NameChars: 300, ValueBytes: 128 << 10, EntityBytes: 4 << 20, KeyBytes: 2 << 10,
		Comparisons: 40}.WithDefaults()
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		body    string
		message string // empty means accepted
	}{
		{`{"` + a(300) + `":1}`, ""},
		{`{"` + a(301) + `":1}`, "The property name exceeds the maximum allowed length (300)."},
		{`{"x":"` + a(65536) + `"}`, ""},
		{`{"x":"` + a(65537) + `"}`, "The property value exceeds the maximum allowed size (131072 bytes)."},
		{`{"RowKey":"` + a(1024) + `"}`, ""},
		{`{"RowKey":"` + a(1025) + `"}`, "The key value is larger than the maximum allowed size (2048 bytes)."},
	} {
		var e Entity
		_, err := DecodeEntity([]byte(c.body), &l, &e)
		if c.message == "" && err != nil || c.message != "" && (err == nil || err.(*Error).Message != c.message) {
			t.Errorf("%s: %v", short(c.body), err)
		}
	}
	filter := "a eq 1" + strings.Repeat(" or a eq 1", 39)
	if _, err := ParseFilter(filter, &l); err != nil {
		t.Error(err)
	}
	if _, err := ParseFilter(filter+" or a", &l); err == nil {
		t.Error("41 comparisons")
	}
}

// TestTimesBeyondTheCalendarAreCutOff checks that CQL timestamps outside four digits of the year are clamped, and that
// the result is valid JSON.
func TestTimesBeyondTheCalendarAreCutOff(t *testing.T) {
	for ticks, want := range map[int64]string{-1 << 63: "0001-01-01T00:00:00Z",
		1<<63 - 1: "9999-12-31T23:59:59.9999999Z"} {
		if got := string(AppendDateTime(nil, ticks)); got != want {
			t.Errorf("%d: %s", ticks, got)
		}
	}
}

func TestNaNIsEqualToNothing(t *testing.T) {
	l := DefaultLimits()
	var e Entity
	if _, err := DecodeEntity([]byte(`{"n@odata.type":"Edm.Double","n":"NaN","i":1}`), &l, &e); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]bool{
		"n eq NaN": false, "n ne NaN": true, "n ne 1": true, "i ne NaN": true, "i lt NaN": false, "n ne 'x'": false,
		"n ge NaN": false,
	} {
		x, err := ParseFilter(filter, &l)
		if err != nil || Matches(x, &e) != want {
			t.Errorf("%s: %v, want %v", filter, err, want)
		}
	}
}
