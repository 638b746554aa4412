package types

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

func TestTimeuuidBoundsAndDurationsAreCassandras(t *testing.T) {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	recorded(t, "testdata/temporal.txt", func(f []string) {
		if f[0] == "add" {
			d, err := ParseDuration(f[1])
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := AddDuration(number(f[2]), d); !ok || got != number(f[3]) {
				t.Errorf("%s + %s = %d, %t, want %s", f[2], f[1], got, ok, f[3])
			}
			return
		}
		ms := number(f[0])
		lower, upper := AppendMinTimeuuid(nil, ms), AppendMaxTimeuuid(nil, ms)
		for i, b := range [][]byte{lower, upper} {
			if got := string(Native(UUID).AppendLiteral(nil, b)); got != f[1+i] {
				t.Errorf("bound %d of %d is %s, want %s", i, ms, got, f[1+i])
			}
			if got, ok := TimeuuidMillis(b); !ok || got != number(f[3+i]) {
				t.Errorf("%s is of %d, want %s", f[1+i], got, f[3+i])
			}
		}
		typ := Native(Timeuuid)
		mid := AppendTimeuuid(nil, UUIDTicks(ms, 5000), 0x8123456789ABCDEF)
		if typ.Validate(mid) != nil || typ.Compare(lower, mid) >= 0 || typ.Compare(mid, upper) >= 0 {
			t.Errorf("%x is not between %x and %x", mid, lower, upper)
		}
	})
}

func TestCalendarAgreesWithGo(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for range 5000 {
		days := r.Int64N(2000000) - 1000000
		want := time.Unix(days*86400, 0).UTC()
		year, month, day := CivilFromDays(days)
		if int(year) != want.Year() || month != int(want.Month()) || day != want.Day() {
			t.Fatalf("day %d is %d-%d-%d, want %s", days, year, month, day, want)
		}
		if back := DaysFromCivil(year, month, day); back != days {
			t.Fatalf("%d-%d-%d is day %d, want %d", year, month, day, back, days)
		}
	}
}

func TestTemporalTextRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for _, k := range []Kind{Date, Time, Duration} {
		typ := Native(k)
		for range 1000 {
			b := randomWire(r, typ)
			if k == Duration {
				d := DurationValue{Months: r.Int32(), Days: r.Int32(), Nanos: r.Int64()}
				if r.IntN(2) == 0 {
					d = DurationValue{Months: -d.Months, Days: -d.Days, Nanos: -d.Nanos}
				}
				b = d.Append(nil)
			}
			text := string(typ.AppendText(nil, b))
			got, err := typ.FromText(text)
			if err != nil || typ.Compare(got, b) != 0 {
				t.Fatalf("%s %x is %s, which reads as %x, %v", typ, b, text, got, err)
			}
		}
	}
	for range 1000 {
		ms := r.Int64N(400000000000000) - 60000000000000 // years 68 to 14646
		text := string(AppendTimestampText(nil, ms, ' '))
		if text[0] == '+' {
			text = text[1:]
		}
		if got, err := ParseTimestamp(text); err != nil || got != ms {
			t.Fatalf("%d is %s, which reads as %d, %v", ms, text, got, err)
		}
	}
}

func TestTimestampsBeyondTheirRange(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, math.MinInt64} {
		for _, d := range []DurationValue{{Months: math.MaxInt32}, {Days: math.MaxInt32}, {Nanos: math.MaxInt64},
			{Months: -math.MaxInt32}, {Days: -math.MaxInt32}, {Nanos: -math.MaxInt64}} {
			up := d.Months+d.Days > 0 || d.Nanos > 0
			got, ok := AddDuration(ms, d)
			if over := up == (ms > 0); ok == over || ok && (got > ms) != up {
				t.Errorf("%d + %+v = %d, %t", ms, d, got, ok)
			}
		}
		if _, ok := DateFromMillis(ms); ok {
			t.Errorf("%d has a date", ms)
		}
	}
	for _, date := range []uint32{0, 1 << 31, math.MaxUint32} {
		if back, ok := DateFromMillis(MillisFromDate(date) + millisPerDay - 1); !ok || back != date {
			t.Errorf("date %d is %d", date, back)
		}
	}
	for days, ok := range map[int64]bool{106751991166: true, 106751991167: false, -106751991167: true,
		-106751991168: true, -106751991169: false} {
		if _, got := millisFrom(days, millisPerDay-1); got != ok {
			t.Errorf("day %d, last millisecond: %t", days, got)
		}
	}
}

func FuzzTemporalText(f *testing.F) {
	for _, seed := range []string{"2020-01-02 03:04:05.678+0100", "2020-01-02", "-1", "1y2mo", "-PT5H",
		"P0001-02-03T04:05:06",
		"23:59:59.999999999", "2020-01-02T03:04 America/New_York", "+292278994-08-17", "1e5", "-0.5E-7", "1.2.3.4",
		"::1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for k := Ascii; k <= Varint; k++ {
			typ := Native(k)
			b, err := typ.FromText(text)
			if err != nil {
				continue
			}
			if k != Text && typ.Validate(b) != nil {
				t.Fatalf("%s %q makes the invalid %x", typ, text, b)
			}
			typ.AppendLiteral(nil, b)
		}
	})
}
