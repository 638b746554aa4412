package azuretables

import (
	"bytes"
	"strconv"
	"sync/atomic"
)

// serviceProperties contains the service properties that an account's owner sets. Settings of logging and metrics are
// stored and returned but have no effect. They have the defaults of the service until an owner sets them.
type serviceProperties struct {
	logging       logging
	hour, minutes metrics
	cors          []corsRule // nil if cross-origin requests are not allowed
}

// logging is the element Logging, which is stored only.
type logging struct {
	version              string // always 1.0
	read, write, deleted bool   // which requests would be logged
	days                 int    // of retention; 0 means off
}

// metrics is the element HourMetrics or MinuteMetrics, which is stored only.
type metrics struct {
	version  string
	enabled  bool
	apis     bool // statistics by operation would be collected
	days     int  // of retention; 0 means off
	explicit bool // the document contained IncludeAPIs, so a response repeats it
}

// propertiesCache holds an account's service properties as last parsed. It is safe for concurrent use. A node has one
// for each account.
type propertiesCache struct {
	newest atomic.Pointer[parsedProperties]
}

// parsedProperties pairs a stored document with its parsed form; both are immutable. raw is compared, not parsed again.
type parsedProperties struct {
	raw []byte
	*serviceProperties
}

// of returns raw, parsed. Stored properties were valid when they were set; empty raw means the defaults. Every response
// to a browser needs the rules, so the document is not parsed for each request. The result must not be changed. It
// never fails: a document that cannot be read allows no cross-origin requests.
func (c *propertiesCache) of(raw []byte) *serviceProperties {
	// The document changes only with SetProperty; comparing it costs less than a version would.
	if p := c.newest.Load(); p != nil && bytes.Equal(p.raw, raw) {
		return p.serviceProperties
	}
	// The defaults of an account that has set nothing.
	defaults := serviceProperties{logging: logging{version: "1.0"}, hour: metrics{version: "1.0"},
		minutes: metrics{version: "1.0"}}
	p := new(serviceProperties)
	*p = defaults
	if len(raw) > 0 {
		// A malformed document yields no rules. Its versions are the defaults, so that a document that is set on top
		// of it can be read.
		if err := p.parse(raw); err != nil {
			*p = defaults
		}
	}
	// raw is copied, because it belongs to the service. Requests that parse it concurrently store equal values.
	c.newest.Store(&parsedProperties{bytes.Clone(raw), p})
	return p
}

// parse sets the properties that a document contains and keeps the others. After an error p may have changed in part,
// so the caller discards it. p is usually a copy of the current properties.
func (p *serviceProperties) parse(body []byte) error {
	root, err := parseXML(body, "StorageServiceProperties")
	if err != nil {
		return err
	}
	// Names other than these are errors: a property that is ignored would look set.
	f, ok := root.fields("Logging", "HourMetrics", "MinuteMetrics", "Cors", "Metrics", "DefaultServiceVersion")
	if !ok {
		return errXML()
	}
	if e := f["Logging"]; e != nil && !p.logging.parse(e) {
		return errXML()
	}
	// Metrics and HourMetrics are the same property.
	hour := f["HourMetrics"]
	if hour == nil {
		hour = f["Metrics"] // before version 2013-08-15
	}
	if hour != nil && !p.hour.parse(hour) {
		return errXML()
	}
	if e := f["MinuteMetrics"]; e != nil && !p.minutes.parse(e) {
		return errXML()
	}
	// An empty element Cors removes all rules.
	if e := f["Cors"]; e != nil {
		rules, ok := parseRules(e)
		if !ok {
			return errXML()
		}
		p.cors = rules
	}
	return nil
}

// parse replaces l, unless the element is invalid. Every child is mandatory. Only version 1.0 exists.
func (l *logging) parse(e *element) bool {
	f, ok := e.fields("Version", "Delete", "Read", "Write", "RetentionPolicy")
	if !ok || f["RetentionPolicy"] == nil {
		return false
	}
	// Built aside, so that an error leaves l as it was.
	out := logging{version: f["Version"].value()}
	ok = out.version == "1.0" && parseTruth(f["Delete"], &out.deleted) && parseTruth(f["Read"], &out.read) &&
		parseTruth(f["Write"], &out.write)
	if out.days, ok = parseRetention(f["RetentionPolicy"], ok); ok {
		*l = out
	}
	return ok
}

// parse replaces m, unless the element is invalid. Version and RetentionPolicy are mandatory.
func (m *metrics) parse(e *element) bool {
	f, ok := e.fields("Version", "Enabled", "IncludeAPIs", "RetentionPolicy")
	if !ok || f["RetentionPolicy"] == nil {
		return false
	}
	out := metrics{version: f["Version"].value(), explicit: f["IncludeAPIs"] != nil}
	ok = out.version == "1.0" && parseTruth(f["Enabled"], &out.enabled)
	if ok && out.explicit {
		ok = parseTruth(f["IncludeAPIs"], &out.apis)
	}
	// IncludeAPIs may be absent only while metrics are disabled.
	if out.enabled && !out.explicit {
		return false // it must be present if metrics are enabled
	}
	if out.days, ok = parseRetention(f["RetentionPolicy"], ok); ok {
		*m = out
	}
	return ok
}

// parseTruth parses a boolean, in the two spellings that clients send. A missing element is invalid. Other spellings,
// such as 1, are refused as by the service.
func parseTruth(e *element, out *bool) bool {
	switch e.value() {
	case "true", "True":
		*out = true
		return true
	case "false", "False":
		*out = false
		return true
	}
	return false
}

// parseRetention parses the number of days of a retention policy: 1 to 365, or 0 if it is disabled. ok is the validity
// so far, which lets the caller chain its checks. days is 0 if valid is false.
func parseRetention(e *element, ok bool) (days int, valid bool) {
	f, known := e.fields("Enabled", "Days")
	var enabled bool
	if !ok || !known || !parseTruth(f["Enabled"], &enabled) {
		return 0, false
	}
	// A disabled policy has no days, or days without effect.
	if !enabled {
		return 0, true
	}
	days, err := strconv.Atoi(f["Days"].value())
	return days, err == nil && days >= 1 && days <= retention
}

// append appends the XML document that the service returns. The elements have the order of the recordings.
func (p *serviceProperties) append(dst []byte) []byte {
	dst = append(dst, xmlHeader+"<StorageServiceProperties><Logging>"...)
	dst = appendElement(dst, "Version", p.logging.version)
	dst = appendTruth(dst, "Read", p.logging.read)
	dst = appendTruth(dst, "Write", p.logging.write)
	dst = appendTruth(dst, "Delete", p.logging.deleted)
	dst = appendRetention(dst, p.logging.days)
	dst = append(dst, "</Logging><HourMetrics>"...)
	dst = p.hour.append(dst)
	dst = append(dst, "</HourMetrics><MinuteMetrics>"...)
	dst = p.minutes.append(dst)
	dst = append(dst, "</MinuteMetrics>"...)
	// An empty list has the form that the recordings show.
	if len(p.cors) == 0 {
		dst = append(dst, "<Cors />"...)
	} else {
		dst = append(dst, "<Cors>"...)
		for i := range p.cors {
			dst = p.cors[i].append(dst)
		}
		dst = append(dst, "</Cors>"...)
	}
	return append(dst, "</StorageServiceProperties>"...)
}

// append appends the children of HourMetrics or MinuteMetrics.
func (m *metrics) append(dst []byte) []byte {
	dst = appendElement(dst, "Version", m.version)
	dst = appendTruth(dst, "Enabled", m.enabled)
	// The service repeats IncludeAPIs only if it was set.
	if m.explicit {
		dst = appendTruth(dst, "IncludeAPIs", m.apis)
	}
	return appendRetention(dst, m.days)
}

// appendTruth appends a boolean as true or false.
func appendTruth(dst []byte, name string, v bool) []byte {
	return appendElement(dst, name, strconv.FormatBool(v))
}

// appendRetention appends a policy; 0 days is a disabled one.
func appendRetention(dst []byte, days int) []byte {
	dst = append(dst, "<RetentionPolicy>"...)
	dst = appendTruth(dst, "Enabled", days > 0)
	if days > 0 {
		dst = appendElement(dst, "Days", strconv.Itoa(days))
	}
	return append(dst, "</RetentionPolicy>"...)
}
