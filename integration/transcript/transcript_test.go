package transcript

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestSplitKeepsBatchesWhole(t *testing.T) {
	in := "INSERT a;\n? int:1\nBEGIN BATCH\nINSERT b;\nINSERT c;\nAPPLY BATCH;\nSELECT 'x;\ny';"
	var got []string
	for _, s := range split(in) {
		if s.err != nil {
			t.Fatal(s.err)
		}
		got = append(got, s.text)
	}
	// A statement ends with the line that ends with ";", so a text may contain one only within a line.
	want := []string{"INSERT a", "BEGIN BATCH\nINSERT b;\nINSERT c;\nAPPLY BATCH", "SELECT 'x", "y'"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if binds := split(in)[1].binds; len(binds) != 1 {
		t.Errorf("binds %v", binds)
	}
}

func TestParseBinds(t *testing.T) {
	for in, want := range map[string]string{
		"int:-1": "ffffffff", "bigint:1": "0000000000000001", "varint:128": "0080", "tinyint:-128": "80",
		"text:'it''s x'": "697427732078",
		"0x00ff":         "00ff", "boolean:true": "01", "inet:::1": "00000000000000000000000000000001",
		"float:1.5":          "3fc00000",
		"list:[int:1 int:2]": "0000000200000004000000010000000400000002", "name=int:1": "00000001",
	} {
		v, err := parseBinds(in)
		if err != nil || len(v) != 1 || hex.EncodeToString(v[0].Bytes) != want {
			t.Errorf("%s: %v %v", in, v, err)
		}
	}
	v, err := parseBinds("null unset int:1")
	if err != nil || len(v) != 3 || v[0].Bytes != nil || !v[1].Unset {
		t.Errorf("%v %v", v, err)
	}
	if _, err := parseBinds("int:x"); err == nil {
		t.Error("int:x is accepted")
	}
}

func TestCollapse(t *testing.T) {
	got := collapse([]string{"ok", "ok", "x", "ok", "ok", "ok"})
	if !reflect.DeepEqual(got, []string{"ok x2", "x", "ok x3"}) {
		t.Errorf("%q", got)
	}
}

// TestUnknownConsistencyLevelsAreErrors parses the options of a block. The level of a typing error must not become ONE.
func TestUnknownConsistencyLevelsAreErrors(t *testing.T) {
	for option, valid := range map[string]bool{"consistency=local_one": true, "serial=LOCAL_SERIAL": true,
		"consistency=LOCALONE": false, "serial=x": false, "consistency": false, "consistency=(ONE,TWO)": false} {
		_, args, err := datadriven.ParseLine("run " + option)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseRequest(&datadriven.TestData{CmdArgs: args}); (err == nil) != valid {
			t.Errorf("%s: %v", option, err)
		}
	}
}
