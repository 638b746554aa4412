package odata

import (
	"bytes"
)

// A tick is 100 ns; Entity.Timestamp and DateTime values count ticks since 1970, UTC. An int64 of ticks covers 29,000
// years in both directions.
const (
	ticksPerSecond = 10_000_000
	ticksPerDay    = 86_400 * ticksPerSecond
)

// The range of DateTimes in the service: 1601-01-01 to 9999-12-31T23:59:59.9999999Z. The first is the start of the
// Windows FILETIME epoch; the last tick is the greatest DateTime of .NET.
const (
	MinDateTime = -11_644_473_600 * ticksPerSecond
	MaxDateTime = 253_402_300_800*ticksPerSecond - 1
)

// AppendDateTime appends ticks in the service's format: 2021-05-26T15:48:07.0454448Z, without trailing zeros in the
// fraction and without a fraction that is zero. Years have four digits. The length is 20 to 28 bytes.
func AppendDateTime(dst []byte, ticks int64) []byte { return appendDateTime(dst, ticks, ":") }

// appendDateTime is AppendDateTime with the colon escaped in ETags, where it is %3A. colon is ":" or "%3A".
func appendDateTime(dst []byte, ticks int64, colon string) []byte {
	ticks = min(max(ticks, year1), MaxDateTime) // a CQL timestamp may exceed four digits of the year
	days := ticks / ticksPerDay
	rest := ticks % ticksPerDay
	// Go rounds toward zero; days before 1970 must be rounded down.
	if rest < 0 {
		rest += ticksPerDay
		days--
	}
	year, month, day := civil(days)
	seconds := int(rest / ticksPerSecond)
	// The year has four digits in the whole range.
	dst = append(dst, byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-')
	dst = append(append2(append(append2(dst, month), '-'), day), 'T')
	dst = append(append2(dst, seconds/3600), colon...)
	dst = append(append2(dst, seconds/60%60), colon...)
	dst = append2(dst, seconds%60)
	return appendFraction(dst, int(rest%ticksPerSecond))
}

// appendFraction appends the fraction of a second, 0 to 9,999,999 ticks, and Z. 5,000,000 ticks are ".5".
func appendFraction(dst []byte, fraction int) []byte {
	if fraction != 0 {
		dst = append(dst, '.')
		// One digit per step, until only zeros remain.
		for fraction != 0 {
			dst = append(dst, byte('0'+fraction/1_000_000))
			fraction = fraction % 1_000_000 * 10
		}
	}
	return append(dst, 'Z')
}

// append2 appends n in two digits, 0 to 99. n is not checked.
func append2(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// second formats times as AppendDateTime does, and caches the text of the last second. The zero value is an empty
// cache. It is not safe for concurrent use. Formatting a second takes a dozen divisions, copying it none.
type second struct {
	ticks int64 // start of the second
	text  [len("2021-05-26T15:48:07")]byte
}

// append is AppendDateTime. Entities that were written in the same second differ in their fractions only.
func (s *second) append(dst []byte, ticks int64) []byte {
	// A first byte of zero marks the empty cache.
	if rest := ticks - s.ticks; s.text[0] != 0 && rest >= 0 && rest < ticksPerSecond {
		return appendFraction(append(dst, s.text[:]...), int(rest))
	}
	start := len(dst)
	dst = AppendDateTime(dst, ticks)
	// Outside this range AppendDateTime may have replaced the value.
	if ticks >= 0 && ticks <= MaxDateTime {
		s.ticks = ticks - ticks%ticksPerSecond
		copy(s.text[:], dst[start:])
	}
	return dst
}

// year1 is 0001-01-01.
const year1 = -62_135_596_800 * ticksPerSecond

// civil returns the date of a day since 1970. An era of 400 years begins on 0000-03-01, so that the leap day is the
// last day of a year. (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".) It is valid for all days that an
// int64 of ticks can express.
func civil(days int64) (year, month, day int) {
	// 719,468 days lie between 0000-03-01 and 1970-01-01.
	z := int(days) + 719_468
	era := z / 146_097
	// Rounded down, also before year 0.
	if z < 0 {
		era = (z - 146_096) / 146_097
	}
	dayOfEra := z - era*146_097
	// Leap days of the era so far: one in 4 years, none in 100, one in 400.
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	// Months of the year that begins in March have 153 days in five.
	m := (5*dayOfYear + 2) / 153
	day = dayOfYear - (153*m+2)/5 + 1
	month = m + 3
	if month > 12 {
		month -= 12
	}
	year = yearOfEra + era*400
	// January and February belong to the next calendar year.
	if month <= 2 {
		year++
	}
	return year, month, day
}

// daysFromCivil returns the days since 1970 of a date. The date must exist, with a year from 1 on. It is the inverse of
// civil.
func daysFromCivil(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return int64(era*146_097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719_468)
}

// daysIn returns the number of days of a month, 1 to 12, of the Gregorian calendar. The month is not checked.
func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// ParseDateTime parses an ISO 8601 time: a date, or a date and a time with or without seconds and a fraction, in UTC
// (Z, or nothing) or with an offset (+02:00). It rounds digits of the fraction after the seventh, half to even, as
// .NET's XmlConvert does. ok is false outside the years 1 to 9999; the range of a property is narrower: MinDateTime,
// MaxDateTime.
//
// Time zones by name, week dates and ordinal dates are not supported. Property values, ETags and $filter literals use
// it.
func ParseDateTime(s []byte) (ticks int64, ok bool) {
	c := digits{s: s, ok: true}
	// The fields before the time have fixed widths.
	year := c.number(4)
	c.expect('-')
	month := c.number(2)
	c.expect('-')
	day := c.number(2)
	// The date must exist; daysFromCivil would accept February 30th.
	if !c.ok || year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	ticks = daysFromCivil(year, month, day) * ticksPerDay
	if len(c.s) > 0 && c.s[0] == 'T' {
		c.expect('T')
		// time may round up to 24 hours, which is the next day.
		ticks += c.time()
	}
	// A local time with a positive offset is later than the same time in UTC.
	ticks -= c.offset()
	if !c.ok || len(c.s) != 0 || ticks < year1 || ticks > MaxDateTime {
		return 0, false
	}
	return ticks, true
}

// digits is a cursor over a time's text; ok becomes false at the first error. After an error, methods return zeros and
// do not move.
type digits struct {
	s  []byte
	ok bool
}

// number reads exactly n digits. After an error, it returns 0 and the cursor stays.
func (c *digits) number(n int) int {
	if len(c.s) < n {
		c.ok = false
		return 0
	}
	v := 0
	for _, d := range c.s[:n] {
		if d < '0' || d > '9' {
			c.ok = false
			return 0
		}
		v = v*10 + int(d-'0')
	}
	c.s = c.s[n:]
	return v
}

// expect reads the byte b. A different byte sets ok to false.
func (c *digits) expect(b byte) {
	if len(c.s) == 0 || c.s[0] != b {
		c.ok = false
		return
	}
	c.s = c.s[1:]
}

// time parses hh:mm, hh:mm:ss or hh:mm:ss.fffffff and returns ticks. Hours and minutes are mandatory. 24:00 and leap
// seconds are not allowed.
func (c *digits) time() (ticks int64) {
	hour := c.number(2)
	c.expect(':')
	minute, second := c.number(2), 0
	if len(c.s) > 0 && c.s[0] == ':' {
		c.expect(':')
		second = c.number(2)
		if len(c.s) > 0 && c.s[0] == '.' {
			c.expect('.')
			ticks = c.fraction()
		}
	}
	// number cannot return a negative value, so the upper bounds suffice.
	if hour > 23 || minute > 59 || second > 59 {
		c.ok = false
	}
	return ticks + int64(hour*3600+minute*60+second)*ticksPerSecond
}

// fraction parses at least one digit and returns ticks. A fraction that rounds up to a second returns ticksPerSecond.
// Any number of digits is accepted.
func (c *digits) fraction() int64 {
	n := 0
	for n < len(c.s) && c.s[n] >= '0' && c.s[n] <= '9' {
		n++
	}
	// A point needs digits after it.
	if n == 0 {
		c.ok = false
		return 0
	}
	var ticks int64
	// Missing digits are zeros.
	for i := range 7 {
		ticks *= 10
		if i < n {
			ticks += int64(c.s[i] - '0')
		}
	}
	// Half to even: 5 followed by zeros only rounds to the even digit.
	if n > 7 {
		more := len(bytes.TrimRight(c.s[8:n], "0")) > 0
		if d := c.s[7]; d > '5' || d == '5' && (more || ticks&1 == 1) {
			ticks++
		}
	}
	c.s = c.s[n:]
	return ticks
}

// offset parses Z, +hh:mm, -hh:mm or nothing and returns ticks. -00:00 is UTC.
func (c *digits) offset() int64 {
	if len(c.s) == 0 {
		return 0
	}
	sign := int64(1)
	switch c.s[0] {
	case 'Z':
		c.s = c.s[1:]
		return 0
	case '-':
		sign = -1
	case '+':
	default:
		c.ok = false
		return 0
	}
	c.s = c.s[1:]
	hour := c.number(2)
	c.expect(':')
	minute := c.number(2)
	// The largest offset is 14:00, as in XML Schema.
	if hour*60+minute > 14*60 || minute > 59 {
		c.ok = false
	}
	return sign * int64(hour*3600+minute*60) * ticksPerSecond
}
