package azuretables

import (
	"net/http"
	"strings"
	"time"
)

// dateFormat is the format of dates in headers (RFC 9110 §5.6.7).
const dateFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

// months has three letters for each month, so the index of a month's name is three times its number, from 0.
const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parseDate parses the date of a signed request. It parses the form that all clients send without time.Parse, which
// costs more than the signature's HMAC. It returns false for dates that http.ParseTime does not know, either.
func parseDate(s string) (time.Time, bool) {
	// The fixed positions of the punctuation; the name of the weekday is not checked, and not needed.
	if len(s) == len(dateFormat) && s[3:5] == ", " && s[7] == ' ' && s[11] == ' ' && s[16] == ' ' && s[19] == ':' &&
		s[22] == ':' && s[25:] == " GMT" {
		day, ok1 := twoDigits(s[5:])
		century, ok2 := twoDigits(s[12:])
		year, ok3 := twoDigits(s[14:])
		hour, ok4 := twoDigits(s[17:])
		minute, ok5 := twoDigits(s[20:])
		second, ok6 := twoDigits(s[23:])
		// A multiple of 3, so that "anF" is no month.
		month := strings.Index(months, s[8:11])
		// Up to the 28th every month has the day. Leap seconds are left to http.ParseTime, too.
		if ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && month >= 0 && month%3 == 0 && day >= 1 && day <= 28 &&
			hour < 24 && minute < 60 && second < 60 {
			return time.Date(century*100+year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC), true
		}
	}
	at, err := http.ParseTime(s) // the 29th to 31st of a month, another format, or not a date
	return at, err == nil
}

// twoDigits parses the first two bytes of s, which the caller has checked to exist. A byte below '0' wraps to more than
// 9. It does not allocate.
func twoDigits(s string) (int, bool) {
	high, low := s[0]-'0', s[1]-'0'
	return int(high)*10 + int(low), high <= 9 && low <= 9
}

// isVersion reports whether s has the form of a service version: 2019-02-02. The version itself need not exist: newer
// SDKs send versions that this server does not know. Days from the 29th on need the calendar, and are left to package
// time.
func isVersion(s string) bool {
	if len(s) == len(time.DateOnly) && s[4] == '-' && s[7] == '-' {
		_, ok1 := twoDigits(s)
		_, ok2 := twoDigits(s[2:])
		month, ok3 := twoDigits(s[5:])
		day, ok4 := twoDigits(s[8:])
		if ok1 && ok2 && ok3 && ok4 && month >= 1 && month <= 12 && day >= 1 && day <= 28 {
			return true
		}
	}
	_, err := time.Parse(time.DateOnly, s) // the 29th to 31st of a month, or not a date
	return err == nil
}
