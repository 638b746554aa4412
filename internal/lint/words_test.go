package lint

import (
	"regexp"
	"strings"
	"testing"
)

// plainer returns phrases that comments and documents must not use, each with what to write instead. They were
// translated word by word, or are private words for terms that the field has.
func plainer() map[string]string {
	return map[string]string{
		"any more":           "no longer, no further",
		"anew":               "again",
		"are those of":       "name the things",
		"are told":           "are notified",
		"at most most":       "at most",
		"besides its bytes":  "memory overhead, in bytes",
		"by none":            "by no ...",
		"for ever":           "forever, permanently",
		"function of a user": "user-defined function",
		"functions of users": "user-defined functions",
		"goes on":            "continues",
		"go on":              "continue",
		"how manieth":        "ordinal",
		"is asked for":       "is requested",
		"is none of":         "is not a",
		"is that of":         "name the thing",
		"behind it":          "after it",
		"behind its":         "after its",
		"behind the":         "after the, later than the",
		"behind them":        "after them",
		"is told":            "is notified",
		"mend":               "repair, fix",
		"mends":              "repairs, fixes",
		"is stored of":       "has a stored row, has an entry",
		"nobody":             "no client, no caller",
		"side by side":       "parallel, adjacent",
		"takes the answer":   "handles the answer",
		"takes the end of":   "handles the end of",
		"takes the outcome":  "handles the outcome",
		"tells":              "reports, returns",
		"texts of errors":    "messages",
		"that of":            "repeat the noun",
		"the present group":  "the current group",
		"the present row":    "the current row",
		"thereby":            "so",
		"they are those":     "name the things",
		"whatever happens":   "in every case",
		"whoever":            "the node that, the client that",
	}
}

func TestWordsArePlain(t *testing.T) {
	var all []string
	for phrase := range plainer() {
		all = append(all, regexp.QuoteMeta(phrase))
	}
	found := regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
	report := func(where, text string) {
		text = strings.Join(strings.Fields(text), " ")
		for _, m := range found.FindAllString(text, -1) {
			t.Errorf("%s: %q: write %s", where, m, plainer()[strings.ToLower(m)])
		}
	}
	for pkg, r := range parsePackages(t) {
		if pkg == "internal/lint" {
			continue
		}
		for _, f := range r.files {
			for _, c := range f.Comments {
				report(r.fset.Position(c.Pos()).String(), c.Text())
			}
		}
	}
	quoted := regexp.MustCompile("`[^`]*`")
	for name, text := range documents(t) {
		report(name, quoted.ReplaceAllString(prose(text), "code"))
	}
}
