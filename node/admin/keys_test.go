package admin

import (
	"bytes"
	"strings"
	"testing"

	"cqld/schema"
	"cqld/types"
)

func keyed(kinds ...types.Kind) *schema.Table {
	t := &schema.Table{Keyspace: "ks", Name: "t"}
	for i, k := range kinds {
		t.PartitionKey = append(t.PartitionKey, &schema.Column{Name: "k", Kind: schema.PartitionKey, Position: i,
			Type: types.Native(k)})
	}
	return t
}

func TestKeysAreReadByTheirTypes(t *testing.T) {
	for _, c := range []struct {
		table *schema.Table
		text  string
		want  []byte
	}{
		{keyed(types.Text), "theo", []byte("theo")},
		{keyed(types.Text), "a:b", []byte("a:b")}, // a single column: the colon is part of the value
		{keyed(types.Int), "-1", []byte{0xFF, 0xFF, 0xFF, 0xFF}},
		{keyed(types.Blob), "0xCAFE", []byte{0xCA, 0xFE}},
		{keyed(types.Boolean), "true", []byte{1}},
		{keyed(types.UUID), "00000000-0000-0000-0000-000000000001", append(make([]byte, 15), 1)},
		{keyed(types.Text, types.Int), "a:7", []byte("\x00\x01a\x00\x00\x04\x00\x00\x00\x07\x00")},
		{keyed(types.Text, types.Text), `a\:b:c\\`, []byte("\x00\x03a:b\x00\x00\x02c\\\x00")},
	} {
		got, err := parseKey(c.table, c.text)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%q: %x, %v; want %x", c.text, got, err, c.want)
			continue
		}
		if back := keyText(c.table, got); !strings.EqualFold(back, c.text) {
			t.Errorf("%q is shown as %q", c.text, back)
		}
	}
	for text, table := range map[string]*schema.Table{"x": keyed(types.Int), "a": keyed(types.Text, types.Int),
		"a:1:2": keyed(types.Text, types.Int),
		"a:b":   keyed(types.Text, types.Int)} {
		if got, err := parseKey(table, text); err == nil {
			t.Errorf("%q is read as %x", text, got)
		}
	}
}

func TestTagsCannotLeaveTheirDirectory(t *testing.T) {
	longest := strings.Repeat("x", 246)
	for _, bad := range []string{"", ".", "..", "../x", "a/b", ".making-x", "a b", longest + "x", "a\x00"} {
		if tagPattern().MatchString(bad) {
			t.Errorf("%q was accepted as a tag", bad)
		}
	}
	for _, good := range []string{"before-upgrade_2.1:x", longest} {
		if !tagPattern().MatchString(good) {
			t.Errorf("%q was refused", good)
		}
	}
}
