package table

import (
	"strings"

	"cqld/table/odata"
)

// params are the parameters of a URL that mean something here, decoded.
type params struct {
	restype, comp                          string
	filter, selected, top, format, orderBy string
	nextPartition, nextRow, nextTable      string
	hasPartition, hasRow, hasTop           bool
	unsupported                            bool // an option of OData that the service does not have
	signature                              signature
}

// signature are the parameters of a shared access signature (SAS).
type signature struct {
	version, services, types, permissions string // sv ss srt sp
	start, expiry, ip, protocol, scope    string // st se sip spr ses
	table, identifier                     string // tn si
	startPK, startRK, endPK, endRK        string // spk srk epk erk
	sig                                   string
	twice                                 bool // one came more than once
}

// parseParams reads a query string.
func parseParams(query string) (p params, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if name, err = unescape(name, true); err == nil {
			value, err = unescape(value, true)
		}
		if err != nil {
			return p, err
		}
		p.set(name, value)
	}
	if p.signature.twice {
		return p, odata.Of(odata.InvalidQueryParameterValue)
	}
	return p, nil
}

func (p *params) set(name, value string) {
	switch name {
	case "restype":
		p.restype = value
	case "comp":
		p.comp = value
	case "$filter":
		p.filter = value
	case "$select":
		p.selected = value
	case "$top":
		p.top, p.hasTop = value, true
	case "$format":
		p.format = value
	case "$orderby":
		p.orderBy = value
	case "NextPartitionKey":
		p.nextPartition, p.hasPartition = value, true
	case "NextRowKey":
		p.nextRow, p.hasRow = value, true
	case "NextTableName":
		p.nextTable = value
	default:
		p.unsupported = p.unsupported || strings.HasPrefix(name, "$")
		p.signature.set(name, value)
	}
}

func (s *signature) set(name, value string) {
	var field *string
	switch name {
	case "sv":
		field = &s.version
	case "ss":
		field = &s.services
	case "srt":
		field = &s.types
	case "sp":
		field = &s.permissions
	case "st":
		field = &s.start
	case "se":
		field = &s.expiry
	case "sip":
		field = &s.ip
	case "spr":
		field = &s.protocol
	case "ses":
		field = &s.scope
	case "tn":
		field = &s.table
	case "si":
		field = &s.identifier
	case "spk":
		field = &s.startPK
	case "srk":
		field = &s.startRK
	case "epk":
		field = &s.endPK
	case "erk":
		field = &s.endRK
	case "sig":
		field = &s.sig
	default:
		return
	}
	s.twice = s.twice || *field != ""
	*field = value
}

// unescape is a text of a URL without percent-encoding.
func unescape(s string, plusIsSpace bool) (string, error) {
	if !strings.Contains(s, "%") && !(plusIsSpace && strings.Contains(s, "+")) {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+' && plusIsSpace:
			out = append(out, ' ')
		case c != '%':
			out = append(out, c)
		case i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		default:
			return "", odata.Of(odata.InvalidURI)
		}
	}
	return string(out), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&7 + 9
}
