package types

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cqld/internal/wire"
)

// DurationValue is a decoded duration: three counts that cannot be converted into each other, because months and days
// vary in length. All nonzero counts have the same sign.
type DurationValue struct {
	Months int32
	Days   int32
	Nanos  int64
}

// DecodeDuration decodes the wire form of a duration. ok is false for bytes that Validate rejects, and for null and the
// empty value.
func DecodeDuration(b []byte) (d DurationValue, ok bool) {
	if len(b) == 0 || validateDuration(Native(Duration), b) != nil {
		return DurationValue{}, false
	}
	// The conversions to 32 bits are exact: validateDuration has checked the ranges.
	c := wire.NewCursor(b)
	return DurationValue{Months: int32(c.Vint()), Days: int32(c.Vint()), Nanos: c.Vint()}, true
}

// Append appends the wire form, which consists of three vints: zigzag-encoded numbers of variable length.
func (d DurationValue) Append(dst []byte) []byte {
	dst = wire.AppendVint(dst, int64(d.Months))
	dst = wire.AppendVint(dst, int64(d.Days))
	return wire.AppendVint(dst, d.Nanos)
}

// The units of a duration, largest first. A text contains each at most once and in this order. add relies on the order
// of the constants.
type durationUnit int

const (
	_ durationUnit = iota
	unitYears
	unitMonths
	unitWeeks
	unitDays
	unitHours
	unitMinutes
	unitSeconds
	unitMillis
	unitMicros
	unitNanos
)

const (
	nanosPerMicro  = 1000
	nanosPerMilli  = 1000 * nanosPerMicro
	nanosPerSecond = 1000 * nanosPerMilli
	nanosPerMinute = 60 * nanosPerSecond
	nanosPerHour   = 60 * nanosPerMinute
	nanosPerDay    = 24 * nanosPerHour
)

// String returns the unit as messages name it.
func (u durationUnit) String() string {
	switch u {
	case unitYears:
		return "years"
	case unitMonths:
		return "months"
	case unitWeeks:
		return "weeks"
	case unitDays:
		return "days"
	case unitHours:
		return "hours"
	case unitMinutes:
		return "minutes"
	case unitSeconds:
		return "seconds"
	case unitMillis:
		return "milliseconds"
	case unitMicros:
		return "microseconds"
	}
	return "nanoseconds"
}

// ParseDuration parses the three forms of CQL: 1y2mo3w4d5h6m7s8ms9us10ns, ISO 8601 as P1Y2M3DT4H5M6S or P3W, and ISO
// 8601's alternative P0001-02-03T04:05:06. Each may start with a minus sign, which applies to all parts. The error is a
// *ValueError.
//
//	1y2mo                  14 months
//	-2w                    -14 days
//	P1Y2M3DT4H             14 months, 3 days, 4 hours
//	P0001-02-03T04:00:00   the same
//	1h1h, 1m1h             errors: a unit twice, and in the wrong order
func ParseDuration(text string) (DurationValue, error) {
	source, negative := strings.CutPrefix(text, "-")
	// source is without the sign, which applies to all parts.
	b := durationBuilder{source: source}
	switch {
	case !strings.HasPrefix(source, "P"):
		// Only ISO forms begin with P.
		b.parseUnits(source)
	case strings.HasSuffix(source, "W"):
		b.add(unitWeeks, b.number(source[1:len(source)-1]))
	// The sign is cut off, so that a hyphen separates parts of a date.
	case strings.Contains(source, "-"):
		b.parseAlternative(source)
	default:
		b.parseISO(source[1:])
	}
	if b.err != nil {
		return DurationValue{}, b.err
	}
	d := DurationValue{Months: int32(b.months), Days: int32(b.days), Nanos: b.nanos}
	// accumulate bounds the magnitudes, so none is the minimum of its type and the negation cannot overflow.
	if negative {
		d.Months, d.Days, d.Nanos = -d.Months, -d.Days, -d.Nanos
	}
	return d, nil
}

// durationBuilder sums the parts of a duration, without its sign. The first error is sticky.
type durationBuilder struct {
	source string
	// last is the unit that was added last.
	last durationUnit
	// The sums are not negative. add checks their limits.
	months int64
	days   int64
	nanos  int64
	err    error
}

// fail keeps the first error.
func (b *durationBuilder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = &ValueError{Type: Native(Duration), Reason: fmt.Sprintf(format, args...)}
	}
}

func (b *durationBuilder) unreadable() { b.fail("Unable to convert '%s' to a duration", b.source) }

// number parses digits. A number too large for an int64 is an error, too.
func (b *durationBuilder) number(s string) int64 {
	if !allDigits(s) {
		b.unreadable()
		return 0
	}
	// allDigits has excluded signs, so that a number is never negative.
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		b.unreadable()
	}
	return n
}

// allDigits reports whether s consists of ASCII digits, and is not empty.
func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// add adds n of a unit, which must be smaller than the previous one.
func (b *durationBuilder) add(u durationUnit, n int64) {
	// fail only records the error. last and the sum still change, but are not used after an error.
	switch {
	case b.err != nil:
		return
	case u == b.last:
		b.fail("Invalid duration. The %s are specified multiple times", u)
	case u < b.last:
		b.fail("Invalid duration. The %s should be after %s", b.last, u)
	}
	b.last = u
	// Months, days and nanoseconds have bounds of their own. The message names the unit of the sum.
	//exhaustive:enforce
	switch u {
	case unitYears:
		b.accumulate(&b.months, n, 12, math.MaxInt32, unitMonths)
	case unitMonths:
		b.accumulate(&b.months, n, 1, math.MaxInt32, unitMonths)
	case unitWeeks:
		b.accumulate(&b.days, n, 7, math.MaxInt32, unitDays)
	case unitDays:
		b.accumulate(&b.days, n, 1, math.MaxInt32, unitDays)
	case unitHours:
		b.accumulate(&b.nanos, n, nanosPerHour, math.MaxInt64, unitNanos)
	case unitMinutes:
		b.accumulate(&b.nanos, n, nanosPerMinute, math.MaxInt64, unitNanos)
	case unitSeconds:
		b.accumulate(&b.nanos, n, nanosPerSecond, math.MaxInt64, unitNanos)
	case unitMillis:
		b.accumulate(&b.nanos, n, nanosPerMilli, math.MaxInt64, unitNanos)
	case unitMicros:
		b.accumulate(&b.nanos, n, nanosPerMicro, math.MaxInt64, unitNanos)
	case unitNanos:
		b.accumulate(&b.nanos, n, 1, math.MaxInt64, unitNanos)
	}
}

// accumulate adds n times per to a sum, unless that exceeds limit. n is not negative.
func (b *durationBuilder) accumulate(sum *int64, n, per, limit int64, u durationUnit) {
	// Divide, because the product could overflow.
	if n > (limit-*sum)/per {
		b.fail("Invalid duration. The total number of %s must be less or equal to %d", u, limit)
		return
	}
	*sum += n * per
}

// parseUnits parses numbers, each with its unit in upper or lower case. An empty text is not a duration, although the
// zero duration is printed as one.
func (b *durationBuilder) parseUnits(s string) {
	if s == "" {
		b.unreadable()
	}
	for s != "" && b.err == nil {
		digits := 0
		for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
			digits++
		}
		// number fails without digits, so each iteration consumes input or ends the loop.
		n := b.number(s[:digits])
		s = s[digits:]
		size := 0
		for size < len(s) && (s[size] < '0' || s[size] > '9') {
			size++
		}
		u := unitBySymbol(s[:size])
		if u == 0 {
			b.unreadable()
		}
		b.add(u, n)
		s = s[size:]
	}
}

// unitBySymbol returns the unit of a symbol, or zero. The micro sign may be written for u.
func unitBySymbol(s string) durationUnit {
	switch strings.ToLower(s) {
	case "y":
		return unitYears
	case "mo":
		return unitMonths
	case "w":
		return unitWeeks
	case "d":
		return unitDays
	case "h":
		return unitHours
	case "m":
		return unitMinutes
	case "s":
		return unitSeconds
	case "ms":
		return unitMillis
	case "us", "\u00b5s":
		return unitMicros
	case "ns":
		return unitNanos
	}
	return 0
}

// parseISO parses the text after P: nY nM nD T nH nM nS, all optional, in upper case. M is months before T and minutes
// after it.
func (b *durationBuilder) parseISO(s string) {
	// A text such as PT without any part is accepted as the zero duration.
	date, clock, hasT := strings.Cut(s, "T")
	b.parseISOPart(date, "YMD", []durationUnit{unitYears, unitMonths, unitDays})
	if hasT {
		b.parseISOPart(clock, "HMS", []durationUnit{unitHours, unitMinutes, unitSeconds})
	}
}

// parseISOPart parses numbers with symbols. symbols and units are parallel; each one may be left out.
func (b *durationBuilder) parseISOPart(s, symbols string, units []durationUnit) {
	for s != "" && b.err == nil {
		i := strings.IndexAny(s, symbols)
		if i < 0 {
			b.unreadable()
			return
		}
		at := strings.IndexByte(symbols, s[i])
		n := b.number(s[:i])
		b.add(units[at], n)
		// Only later symbols may follow.
		symbols, units, s = symbols[at+1:], units[at+1:], s[i+1:]
	}
}

// parseAlternative parses the form of fixed length, digit by digit. Zeros of form stand for digits.
func (b *durationBuilder) parseAlternative(s string) {
	const form = "P0000-00-00T00:00:00"
	if len(s) != len(form) {
		b.unreadable()
		return
	}
	// One unit for each group of digits in form.
	units := []durationUnit{unitYears, unitMonths, unitDays, unitHours, unitMinutes, unitSeconds}
	start := 1
	// The end of the text ends the last part like a separator.
	for i := 1; i <= len(form); i++ {
		if i < len(form) && form[i] == '0' {
			continue
		}
		if i < len(form) && s[i] != form[i] {
			b.unreadable()
			return
		}
		n := b.number(s[start:i])
		b.add(units[0], n)
		units, start = units[1:], i+1
	}
}

// AppendText appends the duration as CQL prints it: 1y2mo3d4h5m6s7ms8us9ns, without the units that are zero. The text
// of the zero duration is empty. Weeks are printed as days.
func (d DurationValue) AppendText(dst []byte) []byte {
	if d.Months < 0 || d.Days < 0 || d.Nanos < 0 {
		dst = append(dst, '-')
	}
	// All parts have the same sign, which is written once.
	months, days, nanos := magnitude(int64(d.Months)), magnitude(int64(d.Days)), magnitude(d.Nanos)
	dst = appendUnit(dst, &months, 12, "y")
	dst = appendUnit(dst, &months, 1, "mo")
	dst = appendUnit(dst, &days, 1, "d")
	dst = appendUnit(dst, &nanos, nanosPerHour, "h")
	dst = appendUnit(dst, &nanos, nanosPerMinute, "m")
	dst = appendUnit(dst, &nanos, nanosPerSecond, "s")
	dst = appendUnit(dst, &nanos, nanosPerMilli, "ms")
	dst = appendUnit(dst, &nanos, nanosPerMicro, "us")
	return appendUnit(dst, &nanos, 1, "ns")
}

// magnitude returns the absolute value, also of the least int64.
func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// appendUnit appends the number of whole units in *rest and leaves the remainder there; per is the size of the unit.
func appendUnit(dst []byte, rest *uint64, per uint64, symbol string) []byte {
	if *rest < per {
		return dst
	}
	dst = append(strconv.AppendUint(dst, *rest/per, 10), symbol...)
	*rest %= per
	return dst
}
