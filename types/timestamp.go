package types

import (
	"strconv"
	"strings"
	"time"
)

// ParseTimestamp parses a timestamp. A whole number is milliseconds since 1970. Otherwise it is a date, an optional
// time after a T or one space, and an optional zone:
//
//	2020-01-02
//	2020-1-2 3:4            one digit is sufficient if there is a time
//	2020-01-02T03:04:05.678901
//	… Z   … +01   … +0100   … +01:00   … PST   … America/New_York   (names after a space)
//
// The default zone is UTC. As in Cassandra, a day that the month does not have becomes its last, and digits beyond
// milliseconds are dropped. Zone names come from the IANA database and a few abbreviations. The caller handles 'now',
// which needs a clock. The result is in milliseconds since 1970, and the error a *ValueError.
func ParseTimestamp(text string) (int64, error) {
	if isWholeNumber(text) {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, valueError(Timestamp, "Unable to make long (for date) from: '%s'", text)
		}
		return ms, nil
	}
	// Try the form with a time first. Unlike a date alone, it needs no padding.
	c, rest, ok := parseDateTime(text)
	// Not a date with a time: the whole text may be a date, perhaps with a zone.
	if !ok {
		c, rest, ok = civilTime{}, "", false
		if year, month, day, r, isDate := parseISODate(text); isDate {
			c, rest, ok = civilTime{year: year, month: month, day: day}, r, true
		}
	}
	if ok {
		if ms, ok := c.millis(rest); ok {
			return ms, nil
		}
	}
	return 0, valueError(Timestamp, "Unable to parse a date/time from '%s'", text)
}

// civilTime is a date and the nanoseconds since its midnight, without a zone. nanos may be a whole day, for 24:00.
type civilTime struct {
	year       int64
	month, day int
	nanos      int64
}

// millis returns the instant of the civil time in a zone, the rest of the text. An empty zone is UTC. ok is false for
// an invalid zone, and beyond the range of timestamps.
func (c civilTime) millis(zone string) (int64, bool) {
	day := min(c.day, daysInMonth(c.year, c.month))
	ms, ok := millisFrom(DaysFromCivil(c.year, c.month, day), c.nanos/nanosPerMilli)
	if !ok || zone == "" {
		return ms, ok
	}
	offset, ok := parseOffset(zone)
	// An offset may follow a space, too; names must.
	if !ok {
		name, spaced := strings.CutPrefix(zone, " ")
		if !spaced {
			return 0, false
		}
		if offset, ok = parseOffset(name); !ok {
			return c.inZone(name, day)
		}
	}
	// East of UTC, the same clock time is earlier.
	shifted := ms - offset
	// If the subtraction overflowed, the result moved in the wrong direction.
	return shifted, (shifted > ms) == (offset < 0)
}

// inZone uses the zone database, which supports the years of time.Time. day is in the month.
func (c civilTime) inZone(name string, day int) (int64, bool) {
	// Beyond, the instant in nanoseconds or microseconds would overflow.
	if c.year < -290000 || c.year > 290000 {
		return 0, false
	}
	region, ok := zoneRegion(name)
	if !ok {
		return 0, false
	}
	// zoneRegion has excluded names with dots, which could leave the directory of the database.
	location, err := time.LoadLocation(region)
	if err != nil {
		return 0, false
	}
	// Pass only seconds and nanoseconds, so that 24:00 becomes the next day.
	seconds, nanos := c.nanos/nanosPerSecond, c.nanos%nanosPerSecond
	at := time.Date(int(c.year), time.Month(c.month), day, 0, 0, int(seconds), int(nanos), location)
	return floorDiv(at.UnixMicro(), 1000), true
}

// zoneRegion returns the IANA name for a zone name or a common abbreviation. All abbreviations follow their region's
// daylight saving time, as in Java. Other names must contain a slash, and only characters of zone names: they become
// file names in the database.
//
//	PST                America/Los_Angeles
//	America/New_York   itself
//	Berlin, ../x       refused
func zoneRegion(name string) (string, bool) {
	switch name {
	case "UTC", "GMT", "UT":
		return "UTC", true
	case "PST", "PDT":
		return "America/Los_Angeles", true
	case "MST", "MDT":
		return "America/Denver", true
	case "CST", "CDT":
		return "America/Chicago", true
	case "EST", "EDT":
		return "America/New_York", true
	case "CET", "CEST":
		return "Europe/Paris", true
	case "JST":
		return "Asia/Tokyo", true
	}
	// Setting the bit makes letters lower case. The characters of the list are compared without it.
	for i := range len(name) {
		c := name[i] | 0x20
		if (c < 'a' || c > 'z') && strings.IndexByte("/_-+0123456789", name[i]) < 0 {
			return "", false
		}
	}
	return name, strings.Contains(name, "/")
}

// offsetMax is the largest offset of a zone from UTC, in hours, as in Java.
const offsetMax = 18

// parseOffset parses Z, ±hh, ±hhmm or ±hh:mm. The result is in milliseconds east of UTC. The whole of s must be an
// offset.
func parseOffset(s string) (int64, bool) {
	if s == "Z" {
		return 0, true
	}
	if len(s) < 3 || s[0] != '+' && s[0] != '-' || !allDigits(s[1:3]) {
		return 0, false
	}
	// Ten hours have 600 minutes.
	minutes := int64(s[1]-'0')*600 + int64(s[2]-'0')*60
	// With or without the colon.
	rest := strings.TrimPrefix(s[3:], ":")
	switch {
	case len(s) == 3:
	// Two digits are compared as text.
	case len(rest) == 2 && allDigits(rest) && rest < "60":
		minutes += int64(rest[0]-'0')*10 + int64(rest[1]-'0')
	default:
		return 0, false
	}
	if minutes > offsetMax*60 {
		return 0, false
	}
	if s[0] == '-' {
		minutes = -minutes
	}
	return minutes * 60000, true
}

// parseDateTime parses a date and a time at the front of s; the rest is the zone. Numbers may have fewer digits than
// usual. Years before 1 have no such form.
func parseDateTime(s string) (c civilTime, rest string, ok bool) {
	// Failures are collected in p, and tested after the date and at the end.
	p := numberParser{rest: s}
	c.year = p.number(999999999)
	p.expect('-')
	c.month = int(p.number(12))
	p.expect('-')
	c.day = int(p.number(31))
	// Without a separator it is not a date with a time.
	if p.bad || c.year < 1 || c.month < 1 || c.day < 1 || !p.next('T') && !p.next(' ') {
		return c, "", false
	}
	// 24 is valid with 00:00 only, which the last test ensures.
	hours := p.number(24)
	p.expect(':')
	minutes := p.number(59)
	var seconds, fraction int64
	if p.next(':') {
		seconds = p.number(59)
		if p.next('.') {
			fraction = p.fraction()
		}
	}
	c.nanos = hours*nanosPerHour + minutes*nanosPerMinute + seconds*nanosPerSecond + fraction
	return c, p.rest, !p.bad && c.nanos <= nanosPerDay // 24:00 is the next day's midnight
}

// numberParser parses numbers and separators at the front of a text. The first failure is sticky.
type numberParser struct {
	rest string
	bad  bool
}

// next consumes c if it is next.
func (p *numberParser) next(c byte) bool {
	if p.rest != "" && p.rest[0] == c {
		p.rest = p.rest[1:]
		return true
	}
	return false
}

// expect consumes c, or fails.
func (p *numberParser) expect(c byte) {
	if !p.next(c) {
		p.bad = true
	}
}

// digits consumes the digits that are next; there may be none.
func (p *numberParser) digits() string {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	d := p.rest[:n]
	p.rest = p.rest[n:]
	return d
}

// number consumes a number no greater than upper, or fails.
func (p *numberParser) number(upper int64) int64 {
	n, err := strconv.ParseInt(p.digits(), 10, 64)
	if err != nil || n > upper {
		p.bad = true
		return 0
	}
	return n
}

// fraction parses zero to nine digits after a decimal point, as nanoseconds.
func (p *numberParser) fraction() int64 {
	d := p.digits()
	if d == "" {
		return 0
	}
	n, ok := fractionNanos(d)
	p.bad = p.bad || !ok
	return n
}

// AppendDateText appends a date as CQL prints it: yyyy-mm-dd, with a plus sign after the year 9999. Years before 0 have
// a minus sign.
//
//	2^31            1970-01-01
//	2^31 - 1        1969-12-31
func AppendDateText(dst []byte, date uint32) []byte {
	year, month, day := CivilFromDays(int64(date) - dateEpoch)
	if year < 0 {
		dst = append(dst, '-')
		year = -year
	} else if year > 9999 {
		dst = append(dst, '+')
	}
	return appendCivil(dst, year, month, day)
}

// appendCivil appends yyyy-mm-dd. The year is not negative, and may have more digits.
func appendCivil(dst []byte, year int64, month, day int) []byte {
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int64(month), 2), '-')
	return appendPadded(dst, int64(day), 2)
}

// AppendTimestampText appends a timestamp as CQL prints it, in UTC with milliseconds. separator is T, or a space in
// JSON. Years before 1 are printed by era, as in Cassandra: year 0 as 0001. ms is in milliseconds since 1970.
func AppendTimestampText(dst []byte, ms int64, separator byte) []byte {
	// Round down, so that the remainder is not negative.
	days := floorDiv(ms, millisPerDay)
	rest := ms - days*millisPerDay
	year, month, day := CivilFromDays(days)
	if year < 1 {
		year = 1 - year
	}
	// Also for years before the era, which have no sign.
	if year > 9999 {
		dst = append(dst, '+')
	}
	dst = append(appendCivil(dst, year, month, day), separator)
	dst = append(appendPadded(dst, rest/3600000, 2), ':')
	dst = append(appendPadded(dst, rest/60000%60, 2), ':')
	dst = append(appendPadded(dst, rest/1000%60, 2), '.')
	return append(appendPadded(dst, rest%1000, 3), 'Z')
}
