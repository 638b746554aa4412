package udf

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"cqld/types"
	"cqld/udf/java"
	"cqld/udf/lua"
)

// repeated are sources with a construct that can be repeated: before, the construct, what closes each, and after.
func repeated() map[string][][4]string {
	return map[string][][4]string{
		Lua: {
			{"return ", "(", ")", ""}, {"return ", "{", "}", ""}, {"return {", "1,", "", "}"},
			{"return {", "[1]=1,", "", "}"}, {"return ", "-", "", "1"},
			{"return ", "not ", "", "1"}, {"return ", "#", "", "'a'"}, {"return 1", "+1", "", ""},
			{"return 1", "^1", "", ""}, {"return 'a'", "..'a'", "", ""},
			{"return 1", "==1", "", ""}, {"return 1", " and 1", "", ""}, {"return 1", " or 1", "", ""},
			{"return a", ".b", "", ""}, {"return a", "[1]", "", ""},
			{"return a", "()", "", ""}, {"return a", ":b()", "", ""}, {"return a", "'x'", "", ""},
			{"return a(", "1,", "", "1)"}, {"return ", "a(", ")", ""},
			{"return ", "a[", "]", ""}, {"return ", "function() return ", " end", ""},
			{"return function(", "b,", "", "c) end"}, {"", "do ", " end", ""},
			{"", "do end ", "", ""}, {"", "while a do ", " end", ""}, {"", "repeat ", " until a", ""},
			{"", "if a then ", " end", ""},
			{"if a then ", "elseif a then ", "", "end"}, {"", "for i = 1, 2 do ", " end", ""},
			{"", "for k in a do ", " end", ""}, {"", "a = 1 ", "", ""},
			{"local ", "b, ", "", "c"}, {"local b = ", "1, ", "", "1"}, {"", "a, ", "", "a = 1"},
			{"", "local b = 1 ", "", ""}, {"", "local function b() end ", "", ""},
			{"", "local function b() ", " end", ""}, {"", ";", "", ""}, {"", "a(1); ", "", ""}, {"--", "x", "", ""},
			{"--[[", "x]", "", "]]"},
			{"return '", "x", "", "'"}, {"return '", "\\n", "", "'"}, {"return [", "=", "=", "["},
			{"return [[", "]x", "", "]]"}, {"return ", "1", "", ""},
			{"return 0x", "1", "", ""}, {"return 1.", "1", "", ""}, {"return ", "x", "", ""}, {"", "\n", "", ""},
			{"return 1", "", "", ""},
		},
		Java: {
			{"return ", "(", ")", ";"}, {"return (", "1+", "", "1);"}, {"return ", "-", "", "a;"},
			{"return ", "- ", "", "a;"}, {"return ", "~", "", "a;"},
			{"return ", "!", "", "a;"}, {"return ", "(int)", "", "a;"}, {"return 1", "+1", "", ";"},
			{"return a", "<<1", "", ";"}, {"return a", "==a", "", ";"},
			{"return a==a", "&&a==a", "", "?1:2;"}, {"return a==a", "||a==a", "", "?1:2;"}, {"return a", "&a", "", ";"},
			{"return ", "a==a?1:", "", "1;"},
			{"return \"a\"", "+\"a\"", "", ".length();"}, {"return \"\"", ".trim()", "", ".length();"},
			{"return ", "Math.max(1,", ")", ";"},
			{"return Math.max(", "1,", "", "1);"}, {"return ", "x.", "", "x;"}, {"return ", "x", "", ";"},
			{"", "{", "}", "return 1;"}, {"", "{}", "", "return 1;"},
			{"", ";", "", "return 1;"}, {"", "if (a>1) ", "", "return 1; return 2;"},
			{"", "if (a>1) {} else ", "", "{} return 2;"}, {"", "while (a>1) ", "", ";"},
			{"", "for (;a>1;) ", "", "; return 1;"}, {"for (", "a++,", "", "a++;;) {}"},
			{"", "int b = 1;", "", "return 1;"},
			{"int b", ",b", "", ";"},
			{"", "a = 1;", "", "return 1;"}, {"", "a++;", "", "return 1;"}, {"return ", "a=", "", "1;"},
			{"List", "<List", ">", " b;"}, {"List<", "Integer,", "", "Integer> b;"},
			{"Object b = ", "new ArrayList<>(", ")", ";"}, {"", "throw new RuntimeException(\"x\"); ", "", ""},
			{"return \"", "x", "", "\".length();"},
			{"return \"", "\\n", "", "\".length();"}, {"return ", "1", "", ";"}, {"return 0x", "1", "", ";"},
			{"return 1.", "1", "", ";"}, {"//", "x", "", ""},
			{"/*", "*", "", "*/return 1;"}, {"", "\n", "", "return 1;"}, {"", "@", "", ""},
			{"return a", "[1]", "", ";"},
			{"return a", ".b", "", ";"},
		},
	}
}

// TestSourcesCostInProportion compiles each repetition at growing numbers: the compiler allocates in proportion,
// or refuses the source.
func TestSourcesCostInProportion(t *testing.T) {
	in := types.Native(types.Int)
	compile := map[string]func(body string) error{
		Lua: func(body string) error { _, err := lua.Compile(body, []string{"a"}); return err },
		Java: func(body string) error {
			_, err := java.Compile(java.Function{Body: body, ArgNames: []string{"a"}, ArgTypes: []*types.Type{in},
				Returns: in})
			return err
		},
	}
	const perByte, fixed = 1500, 1 << 20 // bytes that are allocated
	for language, all := range repeated() {
		accepted := 0
		for _, r := range all {
			for _, n := range []int{10, 100, 1000, 10_000, 100_000} {
				body := r[0] + strings.Repeat(r[1], n) + strings.Repeat(r[2], n) + r[3]
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := compile[language](body)
				runtime.ReadMemStats(&after)
				if err == nil {
					accepted++
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > uint64(perByte*len(body)+fixed) {
					t.Errorf("%s: %d times %q takes %d bytes for %d, %s", language, n, r[1], used, len(body),
						short(err))
					break
				}
			}
		}
		if accepted < len(all) {
			t.Errorf("%s: %d sources are accepted", language, accepted)
		}
	}
}

func short(err error) string { return fmt.Sprintf("%.80v", err) }
