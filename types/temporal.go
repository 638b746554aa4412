package types

import (
	"fmt"
	"strconv"
	"strings"
)

// Instants are CQL timestamps: milliseconds since 1970-01-01T00:00:00Z. Dates are days, with 1970-01-01 in the middle,
// at 2^31. Times are nanoseconds since midnight. The calendar is the Gregorian one, extended to all years, with a year
// 0.

const (
	dateEpoch     = 1 << 31
	millisPerDay  = 24 * 60 * 60 * 1000
	dayNanosLimit = nanosPerDay
)

// DaysFromCivil returns the number of days from 1970-01-01 to a date. It is negative before that day. The month is 1 to
// 12; the day need not be in the month.
// Years begin in March here, so that the leap day is the last of its year, and 400 years (an era) have always 146,097
// days. The constants of the formula:
//
//	146097   days in 400 years
//	153      days in five months, from March or from August
//	719468   days from March 1 of year 0 to 1970-01-01
func DaysFromCivil(year int64, month, day int) int64 {
	// January and February belong to the year before.
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	monthFromMarch := (month + 9) % 12
	// The lengths of months from March repeat after five: 153 days.
	dayOfYear := (153*monthFromMarch+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + int64(dayOfYear) - 719468
}

// CivilFromDays returns the date that many days after 1970-01-01. It is the inverse of DaysFromCivil.
func CivilFromDays(days int64) (year int64, month, day int) {
	// 719,468 days are between March 1 of year 0 and 1970-01-01.
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	// Corrections for leap years: every 4, not every 100, every 400.
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := int(dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100))
	monthFromMarch := (5*dayOfYear + 2) / 153
	day = dayOfYear - (153*monthFromMarch+2)/5 + 1
	// 0 is March, 10 and 11 are January and February of the next year.
	month = (monthFromMarch+2)%12 + 1
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// floorDiv divides and rounds down, also for negative numbers. b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// daysInMonth returns the number of days in a month, 1 to 12.
func daysInMonth(year int64, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// DateFromMillis returns the day of a timestamp in UTC. ok is false if a date cannot represent it: dates have 32 bits.
func DateFromMillis(ms int64) (date uint32, ok bool) {
	// Rounded down: an instant before 1970 belongs to the day in which it is.
	days := floorDiv(ms, millisPerDay) + dateEpoch
	return uint32(days), days >= 0 && days < 1<<32
}

// MillisFromDate returns a date's midnight in UTC, in milliseconds since 1970. No date overflows it.
func MillisFromDate(date uint32) int64 { return (int64(date) - dateEpoch) * millisPerDay }

// AddDuration adds a duration to a timestamp: first months, where a day beyond the month's end becomes its last, then
// days, then time. ok is false if the sum exceeds the range of timestamps. Nanoseconds are cut off to milliseconds.
// Negative durations subtract.
//
//	2024-01-31 + 1mo     2024-02-29
//	2024-01-31 + 1mo1d   2024-03-01
//	2024-03-31 - 1mo     2024-02-29
func AddDuration(ms int64, d DurationValue) (sum int64, ok bool) {
	days := floorDiv(ms, millisPerDay)
	rest := ms - days*millisPerDay
	if d.Months != 0 {
		year, month, day := CivilFromDays(days)
		// Months since year 0.
		m := year*12 + int64(month-1) + int64(d.Months)
		year, month = floorDiv(m, 12), int(m-floorDiv(m, 12)*12)+1
		days = DaysFromCivil(year, month, min(day, daysInMonth(year, month)))
	}
	days += int64(d.Days)
	// The product of days may exceed an int64, for example of a timestamp near its limit.
	sum, ok = millisFrom(days, rest)
	if !ok {
		return 0, false
	}
	// The quotient is rounded towards zero, for negative durations, too.
	delta := d.Nanos / nanosPerMilli
	// The sum must have moved in the direction of delta.
	return sum + delta, (sum+delta < sum) == (delta < 0)
}

// millisFrom combines days and milliseconds, which are less than two days, without overflow. ms is not negative.
func millisFrom(days, ms int64) (int64, bool) {
	const daysMax = 1<<63/millisPerDay + 1
	if days > daysMax || days < -daysMax {
		return 0, false
	}
	// Negative days are computed from the following day, because only a part of the first day is in range.
	if days < 0 {
		days, ms = days+1, ms-millisPerDay
	}
	p := days * millisPerDay
	// The product overflowed.
	if p/millisPerDay != days {
		return 0, false
	}
	// An overflow moves the sum in the wrong direction.
	s := p + ms
	return s, (s < p) == (ms < 0)
}

// uuidEpochMillis is the epoch of version 1 UUIDs, whose timestamps are in steps of 100 ns: 1582-10-15. The value is in
// milliseconds since 1970.
const uuidEpochMillis = -12219292800000

// UUIDTicks returns the timestamp of a version 1 UUID for a Unix time in milliseconds, plus steps of 100 ns. Only its
// lower 60 bits are used.
func UUIDTicks(ms, steps int64) uint64 { return uint64((ms-uuidEpochMillis)*10000 + steps) }

// AppendTimeuuid appends the version 1 UUID with a timestamp (UUIDTicks) and a second half: variant, clock sequence and
// node, which the caller has generated. Both halves are numbers, big-endian.
func AppendTimeuuid(dst []byte, ticks, clockAndNode uint64) []byte {
	// The version is before the timestamp's upper bits.
	v := ticks&(1<<60-1) | 1<<60
	return appendBE64(appendBE64(dst, unreorderTimestamp(v)), clockAndNode)
}

// TimeuuidMillis returns the Unix time in milliseconds of a version 1 UUID, rounded towards 1970 as in Cassandra. ok is
// false for other UUIDs, and for other lengths.
func TimeuuidMillis(wire []byte) (ms int64, ok bool) {
	if len(wire) != 16 || wire[6]>>4 != 1 {
		return 0, false
	}
	// 60 bits, so that the conversion cannot overflow.
	ticks := int64(reorderTimestamp(be64(wire)) & (1<<60 - 1))
	return (ticks + uuidEpochMillis*10000) / 10000, true
}

// The second halves that sort first and last by signed bytes. No real UUID has them.
const (
	clockAndNodeFirst = 0x8080808080808080
	clockAndNodeLast  = 0x7F7F7F7F7F7F7F7F
)

// AppendMinTimeuuid appends the lower bound of all timeuuids of that millisecond. It is a bound, not an id: many calls
// return the same.
func AppendMinTimeuuid(dst []byte, ms int64) []byte {
	return AppendTimeuuid(dst, UUIDTicks(ms, 0), clockAndNodeFirst)
}

// AppendMaxTimeuuid appends the upper bound of all timeuuids of that millisecond, with its last step of 100 ns.
func AppendMaxTimeuuid(dst []byte, ms int64) []byte {
	return AppendTimeuuid(dst, UUIDTicks(ms, 9999), clockAndNodeLast)
}

// ParseDate parses a date: yyyy-mm-dd, with a sign if the year has more than four digits, or the number of days. The
// number has the form of stored dates: 2^31 is 1970-01-01. The error is a *ValueError.
func ParseDate(text string) (uint32, error) {
	// Tested first: 2020 is a number of days, not a year.
	if isWholeNumber(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n >= 1<<32 {
			return 0, valueError(Date, "Unable to make unsigned int (for date) from: '%s'", text)
		}
		return uint32(n), nil
	}
	// Digits with a minus sign are a number, too, and were refused as such.
	year, month, day, rest, ok := parseISODate(text)
	if !ok || rest != "" || day > daysInMonth(year, month) {
		return 0, valueError(Date, "Unable to coerce '%s' to a formatted date (long)", text)
	}
	days := DaysFromCivil(year, month, day) + dateEpoch
	switch {
	case days < 0:
		return 0, valueError(Date, "Input date %s is less than min supported date -5877641-06-23T00:00Z", text)
	case days >= 1<<32:
		return 0, valueError(Date, "Input date %s is greater than max supported date +5881580-07-11T00:00Z", text)
	}
	return uint32(days), nil
}

// parseISODate parses [sign]yyyy-mm-dd at the front of s. The day may be up to 31 in any month. A year of more than
// four digits needs a sign; a plus sign is for such a year only. No year has more than nine digits.
//
//	2020-01-02     valid        +12020-01-02   valid
//	-0001-01-02    valid        12020-01-02    no: a sign is missing
//	2020-1-2       no: two digits are needed
//	2020-02-31     valid here; callers check the day
func parseISODate(s string) (year int64, month, day int, rest string, ok bool) {
	signed := s != "" && (s[0] == '-' || s[0] == '+')
	digits := s
	if signed {
		digits = s[1:]
	}
	// The number of digits of the year.
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n < 4 || n > 9 || (n > 4) != (signed && s[0] == '+') && !(signed && s[0] == '-') {
		return 0, 0, 0, "", false
	}
	year, _ = strconv.ParseInt(digits[:n], 10, 64)
	if signed && s[0] == '-' {
		year = -year
	}
	rest = digits[n:]
	if len(rest) < 6 || rest[0] != '-' || rest[3] != '-' || !allDigits(rest[1:3]) || !allDigits(rest[4:6]) {
		return 0, 0, 0, "", false
	}
	month, day = int(rest[1]-'0')*10+int(rest[2]-'0'), int(rest[4]-'0')*10+int(rest[5]-'0')
	return year, month, day, rest[6:], month >= 1 && month <= 12 && day >= 1 && day <= 31
}

// isWholeNumber reports whether s consists of digits, perhaps after a minus sign.
func isWholeNumber(s string) bool { return allDigits(strings.TrimPrefix(s, "-")) }

// ParseTime parses a time of day: hh:mm:ss[.fffffffff], or the number of nanoseconds since midnight. The error is a
// *ValueError.
func ParseTime(text string) (int64, error) {
	if isWholeNumber(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n >= dayNanosLimit {
			return 0, valueError(Time, "Unable to make long (for time) from: '%s'", text)
		}
		return n, nil
	}
	// Spaces around a time are accepted, around a number they are not.
	nanos, ok := parseClock(strings.TrimSpace(text))
	if !ok {
		return 0, valueError(Time, "(TimeType) Unable to coerce '%s' to a formatted time (long)", text)
	}
	return nanos, nil
}

// parseClock parses hh:mm:ss[.fffffffff]. The parts may have fewer digits, or leading zeros. 24:00:00 is not a time of
// day. Examples are 1:2:3 and 01:02:03.5.
func parseClock(s string) (int64, bool) {
	hours, s, ok1 := strings.Cut(s, ":")
	minutes, s, ok2 := strings.Cut(s, ":")
	seconds, fraction, hasFraction := strings.Cut(s, ".")
	if !ok1 || !ok2 {
		return 0, false
	}
	// All parts are parsed before the results are tested together: a failure has no position.
	h, ok1 := clockPart(hours, 24)
	m, ok2 := clockPart(minutes, 60)
	sec, ok3 := clockPart(seconds, 60)
	nanos, ok4 := int64(0), true
	if hasFraction {
		nanos, ok4 = fractionNanos(fraction)
	}
	return h*nanosPerHour + m*nanosPerMinute + sec*nanosPerSecond + nanos, ok1 && ok2 && ok3 && ok4
}

// clockPart parses a number below limit.
func clockPart(s string, limit int64) (int64, bool) {
	// allDigits refuses the signs that ParseInt accepts.
	n, err := strconv.ParseInt(s, 10, 32)
	return n, err == nil && allDigits(s) && n < limit
}

// fractionNanos parses one to nine digits after the decimal point of seconds, as nanoseconds.
func fractionNanos(s string) (int64, bool) {
	if !allDigits(s) || len(s) > 9 {
		return 0, false
	}
	n, _ := strconv.ParseInt(s, 10, 64)
	// Missing digits are zeros: .5 is 500,000,000 ns.
	for range 9 - len(s) {
		n *= 10
	}
	return n, true
}

// valueError returns a *ValueError for a native type.
func valueError(k Kind, format string, args ...any) error {
	return &ValueError{Type: Native(k), Reason: fmt.Sprintf(format, args...)}
}

// appendPadded appends n, padded with zeros to width digits. n is not negative.
func appendPadded(dst []byte, n int64, width int) []byte {
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], n, 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// AppendTimeText appends a time of day as CQL prints it: hh:mm:ss.fffffffff, always with nine digits. For example,
// 01:02:03.000000004.
func AppendTimeText(dst []byte, nanos int64) []byte {
	dst = append(appendPadded(dst, nanos/nanosPerHour, 2), ':')
	dst = append(appendPadded(dst, nanos/nanosPerMinute%60, 2), ':')
	dst = append(appendPadded(dst, nanos/nanosPerSecond%60, 2), '.')
	return appendPadded(dst, nanos%nanosPerSecond, 9)
}
