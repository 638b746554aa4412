package azuretables

import (
	"bytes"
	"strconv"
	"sync/atomic"
)

// serviceProperties contains the service properties that an account's owner sets. Settings of logging and metrics are
// stored and returned but have no effect.
type serviceProperties struct {
	logging       logging
	hour, minutes metrics
	cors          []corsRule
}

type logging struct {
	version              string
	read, write, deleted bool
	days                 int // of retention; 0 means off
}

type metrics struct {
	version  string
	enabled  bool
	apis     bool
	days     int
	explicit bool
}

// propertiesCache holds an account's service properties as last parsed.
type propertiesCache struct {
	newest atomic.Pointer[parsedProperties]
}

type parsedProperties struct {
	raw []byte
	*serviceProperties
}

// of returns raw, parsed. Stored properties were valid when they were set; empty raw means the defaults.
func (c *propertiesCache) of(raw []byte) *serviceProperties {
	if p := c.newest.Load(); p != nil && bytes.Equal(p.raw, raw) {
		return p.serviceProperties
	}
	p := &serviceProperties{logging: logging{version: "1.0"}, hour: metrics{version: "1.0"},
		minutes: metrics{version: "1.0"}}
	if len(raw) > 0 {
		if err := p.parse(raw); err != nil {
			p = &serviceProperties{}
		}
	}
	c.newest.Store(&parsedProperties{bytes.Clone(raw), p})
	return p
}

// parse sets the properties that a document contains and keeps the others.
func (p *serviceProperties) parse(body []byte) error {
	root, err := parseXML(body, "StorageServiceProperties")
	if err != nil {
		return err
	}
	f, ok := root.fields("Logging", "HourMetrics", "MinuteMetrics", "Cors", "Metrics", "DefaultServiceVersion")
	if !ok {
		return errXML()
	}
	if e := f["Logging"]; e != nil && !p.logging.parse(e) {
		return errXML()
	}
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
	if e := f["Cors"]; e != nil {
		rules, ok := parseRules(e)
		if !ok {
			return errXML()
		}
		p.cors = rules
	}
	return nil
}

func (l *logging) parse(e *element) bool {
	f, ok := e.fields("Version", "Delete", "Read", "Write", "RetentionPolicy")
	if !ok || f["RetentionPolicy"] == nil {
		return false
	}
	out := logging{version: f["Version"].value()}
	ok = out.version == "1.0" && parseTruth(f["Delete"], &out.deleted) && parseTruth(f["Read"], &out.read) &&
		parseTruth(f["Write"], &out.write)
	if out.days, ok = parseRetention(f["RetentionPolicy"], ok); ok {
		*l = out
	}
	return ok
}

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
	if out.enabled && !out.explicit {
		return false // it must be present if metrics are enabled
	}
	if out.days, ok = parseRetention(f["RetentionPolicy"], ok); ok {
		*m = out
	}
	return ok
}

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

// parseRetention parses the number of days of a retention policy: 1 to 365, or 0 if it is disabled.
func parseRetention(e *element, ok bool) (days int, valid bool) {
	f, known := e.fields("Enabled", "Days")
	var enabled bool
	if !ok || !known || !parseTruth(f["Enabled"], &enabled) {
		return 0, false
	}
	if !enabled {
		return 0, true
	}
	days, err := strconv.Atoi(f["Days"].value())
	return days, err == nil && days >= 1 && days <= retention
}

// append appends the XML document that the service returns.
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

func (m *metrics) append(dst []byte) []byte {
	dst = appendElement(dst, "Version", m.version)
	dst = appendTruth(dst, "Enabled", m.enabled)
	if m.explicit {
		dst = appendTruth(dst, "IncludeAPIs", m.apis)
	}
	return appendRetention(dst, m.days)
}

func appendTruth(dst []byte, name string, v bool) []byte {
	return appendElement(dst, name, strconv.FormatBool(v))
}

func appendRetention(dst []byte, days int) []byte {
	dst = append(dst, "<RetentionPolicy>"...)
	dst = appendTruth(dst, "Enabled", days > 0)
	if days > 0 {
		dst = appendElement(dst, "Days", strconv.Itoa(days))
	}
	return append(dst, "</RetentionPolicy>"...)
}
