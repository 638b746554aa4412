package azuretables

import (
	"bytes"
	"encoding/xml"
	"strings"

	"cqld/azuretables/odata"
)

// element is an element of a small XML document. Children keep their order. Text and comments between them are allowed.
// It is for documents of a few kilobytes.
type element struct {
	name     string // local name, without its prefix
	text     string // all character data, concatenated
	children []*element
}

// parseXML parses a document whose root element has the given name. It ignores attributes and namespaces. A byte order
// mark may precede it. Every error is InvalidXmlDocument, because the service has no other. It is limited in size and
// depth before it allocates much.
func parseXML(body []byte, root string) (*element, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if len(body) > xmlBytesMax {
		return nil, errXML()
	}
	d := xml.NewDecoder(bytes.NewReader(body))
	d.Strict = true
	// top is not part of the document: its only child must be the root.
	top := &element{}
	// open is the stack of elements that have not ended.
	open := []*element{top}
	for {
		token, err := d.Token()
		// The decoder has checked that elements are nested and closed. The end of the input is the only valid error.
		if token == nil {
			if len(open) != 1 || err == nil || err.Error() != "EOF" {
				return nil, errXML()
			}
			break
		}
		at := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			// The depth is limited, so that a document of xmlBytesMax cannot nest thousands of elements.
			if len(open) > xmlDepthMax {
				return nil, errXML()
			}
			e := &element{name: t.Name.Local}
			at.children = append(at.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		// Entities are expanded by the decoder, which knows only the predefined five.
		case xml.CharData:
			at.text += string(t)
		case xml.Directive:
			return nil, errXML() // document types are refused, so that documents cannot define entities
		}
	}
	if len(top.children) != 1 || top.children[0].name != root {
		return nil, errXML()
	}
	return top.children[0], nil
}

// errXML returns the error for a document that is malformed or has a value that is not allowed.
func errXML() error { return odata.Of(odata.InvalidXMLDocument) }

// fields returns the children of e by name. ok is false if a child occurs twice or has none of the names. The
// service's documents have each element at most once.
func (e *element) fields(names ...string) (map[string]*element, bool) {
	out := map[string]*element{}
	for _, c := range e.children {
		// names has a few entries, so a map would cost more.
		known := false
		for _, n := range names {
			known = known || n == c.name
		}
		if _, twice := out[c.name]; twice || !known {
			return nil, false
		}
		out[c.name] = c
	}
	return out, true
}

// value returns the text of e without surrounding white space; a nil element has empty text. That makes optional
// elements equal to empty ones. It is safe on a nil pointer.
func (e *element) value() string {
	if e == nil {
		return ""
	}
	return strings.TrimSpace(e.text)
}

// xmlHeader starts every XML document of the service, with a byte order mark.
const xmlHeader = "\ufeff" + `<?xml version="1.0" encoding="utf-8"?>`

// appendElement appends an element that contains text. Text is escaped; the name is a constant of the caller and is
// not. Without text, the element is closed in one tag.
func appendElement(dst []byte, name, text string) []byte {
	if text == "" {
		return append(append(append(dst, '<'), name...), " />"...)
	}
	dst = append(append(append(dst, '<'), name...), '>')
	dst = odata.AppendXMLText(dst, text)
	return append(append(append(dst, "</"...), name...), '>')
}
