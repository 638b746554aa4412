package odata

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
)

// kilobyte returns an entity of about 1 KB of JSON, as clients send it: ten properties of all types.
func kilobyte() (Entity, []byte) {
	e := Entity{PartitionKey: "registration-2024-05-26", RowKey: "00000000000000000042",
		Timestamp: 16_000_000_000_454_448}
	add := func(name string, v Value) { e.Properties = append(e.Properties, Property{Name: name, Value: v}) }
	add("Name", Value{Type: String, Bytes: []byte("Ada Lovelace")})
	add("Notes", Value{Type: String, Bytes: bytes.Repeat([]byte("abcdefghij"), 35)})
	add("Age", Value{Type: Int32, Int: 36})
	add("Serial", Value{Type: Int64, Int: 1234567890123})
	add("Paid", Value{Type: Boolean, Int: 1})
	add("Fee", Value{Type: Double, Float: 42.5})
	add("Start", Value{Type: DateTime, Int: 16_000_000_000_454_448})
	add("Chip", Value{Type: GUID, Bytes: []byte("0123456789abcdef")})
	add("Photo", Value{Type: Binary, Bytes: bytes.Repeat([]byte{1, 2, 3}, 20)})
	add("Club", Value{Type: String, Bytes: []byte("Analytical Engine Runners")})
	return e, (&Context{Level: MinimalMetadata, Root: "http://127.0.0.1:10002/acc",
		Table: "runners"}).AppendEntity(nil, &e)
}

func TestCodecsAllocateLittle(t *testing.T) {
	e, text := kilobyte()
	if len(text) < 900 || len(text) > 1200 {
		t.Fatalf("%d bytes are no kilobyte", len(text))
	}
	l := DefaultLimits()
	var back Entity
	body := make([]byte, len(text))
	if n := testing.AllocsPerRun(100, func() {
		copy(body, text)
		if _, err := DecodeEntity(body, &l, &back); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // one allocation for all names and keys
		t.Errorf("decoding allocates %v times", n)
	}
	c := Context{Level: FullMetadata, Root: "http://127.0.0.1:10002/acc", Account: "acc", Table: "runners"}
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst = c.AppendEntity(dst[:0], &e) }); n > 0 {
		t.Errorf("encoding allocates %v times", n)
	}
	e.Properties[1].Value.Bytes = bytes.Repeat([]byte("é\"\n"), 100)
	if n := testing.AllocsPerRun(100, func() { dst = c.AppendEntity(dst[:0], &e) }); n > 0 {
		t.Errorf("encoding escapes allocates %v times", n)
	}
	filter, err := ParseFilter("PartitionKey eq 'registration-2024-05-26' and Age gt 30 and not (Club eq 'x')", &l)
	if err != nil {
		t.Fatal(err)
	}
	batch := hundred()
	if n := testing.AllocsPerRun(10, func() {
		if b, err := ParseBatch(batch, "multipart/mixed; boundary=b", &l); err != nil || len(b.Requests) != 100 {
			t.Fatal(err)
		}
	}); n > 110 { // the head of each operation, and the lists
		t.Errorf("a batch of 100 allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if !Matches(filter, &e) {
			t.Fatal("does not match")
		}
	}); n > 0 {
		t.Errorf("matching allocates %v times", n)
	}
}

func BenchmarkDecodeEntity(b *testing.B) {
	_, text := kilobyte()
	l := DefaultLimits()
	var e Entity
	body := make([]byte, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		copy(body, text)
		if _, err := DecodeEntity(body, &l, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendEntity(b *testing.B) {
	e, text := kilobyte()
	c := Context{Level: MinimalMetadata, Root: "http://127.0.0.1:10002/acc", Account: "acc", Table: "runners"}
	dst := make([]byte, 0, 4096)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = c.AppendEntity(dst[:0], &e)
	}
}

func BenchmarkMatches(b *testing.B) {
	e, _ := kilobyte()
	l := DefaultLimits()
	filter, err := ParseFilter("PartitionKey eq 'registration-2024-05-26' and Age gt 30 and not (Club eq 'x')", &l)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !Matches(filter, &e) {
			b.Fatal("does not match")
		}
	}
}

func BenchmarkParseFilter(b *testing.B) {
	l := DefaultLimits()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseFilter("PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'", &l); err != nil {
			b.Fatal(err)
		}
	}
}

// hundred returns a batch of a hundred entities.
func hundred() (body []byte) {
	body = append(body, "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"...)
	_, entity := kilobyte()
	for i := range 100 {
		body = append(body, "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"...)
		body = append(body, "PUT http://127.0.0.1:10002/acc/runners(PartitionKey='p',RowKey='"...)
		body = append(strconv.AppendInt(body, int64(i), 10), "') HTTP/1.1\r\n"...)
		body = append(body, "Accept: application/json;odata=minimalmetadata\r\nContent-Type: "+
			"application/json\r\nPrefer: return-no-content\r\n\r\n"...)
		body = append(append(body, entity...), "\r\n"...)
	}
	return append(body, "--c--\r\n--b--\r\n"...)
}

func BenchmarkParseBatch(b *testing.B) {
	body := hundred()
	l := DefaultLimits()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if batch, err := ParseBatch(body, "multipart/mixed; boundary=b", &l); err != nil || len(batch.Requests) != 100 {
			b.Fatal(err)
		}
	}
}

// TestLeadingZerosAreCutOnce checks that a literal with many leading zeros does not cost a copy for each of them, and
// that it has its value.
func TestLeadingZerosAreCutOnce(t *testing.T) {
	l := DefaultLimits()
	for _, c := range []struct {
		sign, digits string
		want         int64
		valid        bool
	}{{"", "12", 12, true}, {"-", "12", -12, true}, {"", "0", 0, true}, {"-", "0", 0, true},
		{"", "9223372036854775807", math.MaxInt64, true}, {"-", "9223372036854775808", math.MinInt64, true},
		{"", "9223372036854775808", 0, false}, {"-", "9223372036854775809", 0, false},
		{"", "10000000000000000000", 0, false}} {
		for _, zeros := range []int{0, 1, 17, 18, 19, 20, 21, 30_000} {
			filter := "p eq " + c.sign + strings.Repeat("0", zeros) + c.digits
			var got Expr
			var err error
			allocations := testing.AllocsPerRun(1, func() { got, err = ParseFilter(filter, &l) })
			if allocations > 20 {
				t.Errorf("%d zeros: %v allocations", zeros, allocations)
			}
			if (err == nil) != c.valid {
				t.Errorf("%s%s after %d zeros: %v", c.sign, c.digits, zeros, err)
			} else if err == nil && got.(*Comparison).Value.Int != c.want {
				t.Errorf("%s%s after %d zeros: %v", c.sign, c.digits, zeros, got)
			}
		}
	}
}
