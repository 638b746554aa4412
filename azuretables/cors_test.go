package azuretables

import (
	"fmt"
	"strings"
	"testing"
)

// TestRulesHaveFewHeaders checks the service's limits of the headers of a rule: 64 names and 2 prefixes in each list.
func TestRulesHaveFewHeaders(t *testing.T) {
	list := func(n int, suffix string) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("x%d%s", i, suffix))
		}
		return strings.Join(names, ",")
	}
	for _, c := range []struct {
		list string
		ok   bool
	}{{list(64, ""), true}, {list(65, ""), false}, {list(2, "*"), true}, {list(3, "*"), false},
		{list(64, "") + "," + list(2, "*"), true}, {"*", true}} {
		for _, lists := range [][2]string{{c.list, ""}, {"", c.list}} {
			e, err := parseXML([]byte("<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET"+
				"</AllowedMethods><AllowedHeaders>"+lists[0]+"</AllowedHeaders><ExposedHeaders>"+lists[1]+
				"</ExposedHeaders><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule></Cors>"), "Cors")
			if err != nil {
				t.Fatal(err)
			}
			rules, ok := parseRules(e)
			if !ok || rules[0].fewHeaders() != c.ok {
				t.Errorf("%v, want %v: %s", !c.ok, c.ok, c.list)
			}
		}
	}
}
