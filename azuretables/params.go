package azuretables

import (
	"strings"

	"cqld/azuretables/odata"
)

// params contains the decoded URL parameters that the server reads. An empty string is an absent parameter, unless a
// field says otherwise.
type params struct {
	restype, comp                          string
	filter, selected, top, format, orderBy string // $filter and the other options, unparsed
	nextPartition, nextRow, nextTable      string // continuation tokens, unparsed
	hasPartition, hasRow, hasTop           bool   // distinguish absent parameters from empty ones
	unsupported                            bool   // an OData option that the service does not support
	signature                              signature
}

// signature contains the parameters of a shared access signature (SAS). Fields are as sent; authorizeSignature checks
// them, and s.take fills in a stored policy. Their names in the URL are in the comments.
type signature struct {
	version, services, types, permissions string // sv ss srt sp
	start, expiry, ip, protocol, scope    string // st se sip spr ses
	table, identifier                     string // tn si
	startPK, startRK, endPK, endRK        string // spk srk epk erk
	sig                                   string
	twice                                 bool // a parameter occurred more than once
}

// parseParams parses a query string. Unknown parameters without $ are ignored, as in the service: clients add timeout
// and others. Parameters are separated by & only.
func parseParams(query string) (p params, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		// "a&&b" and a trailing & are valid.
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		// "+" is a space in a query.
		name, ok1 := odata.Unescape(name, true)
		value, ok2 := odata.Unescape(value, true)
		if !ok1 || !ok2 {
			return p, odata.Of(odata.InvalidURI)
		}
		p.set(name, value)
	}
	// Which value the signature covers would be ambiguous.
	if p.signature.twice {
		return p, odata.Of(odata.InvalidQueryParameterValue)
	}
	return p, nil
}

// set stores a parameter. Names are case-sensitive. A repeated parameter has its last value. Parameters of OData begin
// with $.
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
		// $skip, $expand and others: a response that ignored them would be wrong.
		p.unsupported = p.unsupported || strings.HasPrefix(name, "$")
		p.signature.set(name, value)
	}
}

// set stores a parameter of a signature, and ignores other parameters. Their values are not checked here.
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
	// An empty value followed by another one is no repetition: the signature covers the same string.
	s.twice = s.twice || *field != ""
	*field = value
}
